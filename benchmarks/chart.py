"""The SVG chart of `big` and `small`: one bar per contender, for its throughput. It follows light and dark mode."""

from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

from benchmarks.core_scaling import on_most_cores
from benchmarks.result import Result
from benchmarks.stats import TIMES, GoalResult, number

SHOWN = ("big", "small")
WIDTH, LABEL, BAR, STEP, LINE, GAP = 720, 190, 330, 30, 20, 26
LINE_CHARS = 95
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.soft{fill:#59636e}"
    ".bar{fill:#8c959f}.ours{fill:#0969da}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.bar{fill:#656c76}.ours{fill:#4493f8}}"
)


def chart(results: Sequence[Result]) -> str:
    shown = [result for result in on_most_cores(results) if result.name in SHOWN and result.bars]
    parts, height = _charts(shown)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-label="Throughput of Blizzard and its alternatives">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def _charts(results: Sequence[Result]) -> tuple[list[str], int]:
    """SVG elements, and the height of the chart in pixels."""
    parts, top = [], GAP
    for result in results:
        scaled = "" if result.scale == 1 else f" ({result.scale:g} of the full size)"
        parts.append(_text(12, top, result.what + scaled, "title"))
        goals = wrap("Throughput, warm. " + "; ".join(map(_goal, result.goal_results)), LINE_CHARS)
        parts += [_text(12, top + LINE * (row + 1), line, "soft") for row, line in enumerate(goals)]
        top += LINE * (len(goals) + 1) + LINE // 2
        parts += _bars(result.bars, top)
        top += STEP * len(result.bars) + GAP
    return parts, top


def _bars(secs: dict[str, float], top: int) -> Iterator[str]:
    """The fastest contender's bar has the full width. Labels: speed relative to Blizzard, and seconds."""
    fastest, ours = min(secs.values()), secs["Blizzard"]
    for row, (title, taken) in enumerate(sorted(secs.items(), key=lambda item: item[1])):
        y, length = top + STEP * row, max(2.0, BAR * fastest / taken)
        kind = "ours" if title == "Blizzard" else "bar"
        yield _text(12, y + 4, title, "")
        yield f'<rect class="{kind}" x="{LABEL}" y="{y - 10}" width="{length:.1f}" height="18" rx="3"/>'
        yield _text(LABEL + length + 8, y + 4, f"{number(ours / taken)}{TIMES}, {number(taken)} s", "soft")


def _goal(goal_result: GoalResult) -> str:
    sign = "≥" if goal_result.goal.kind == "at least" else "≤"
    name = goal_result.goal.name.replace("_", " ")
    found = number(goal_result.measured.median) if goal_result.measured else "?"
    return f"{name} {found} ({sign} {number(goal_result.goal.limit)})"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
