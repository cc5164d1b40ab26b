"""What the proof says at its end: as Markdown for people, as JSON for programs."""

from collections.abc import Sequence
from typing import Any

from benchmarks.version import Version
from tests.proof.outcome import End, Outcome

TITLES = {False: "| campaign | | s | what it did |", True: "| variant | campaign | | s | what it did |"}


def as_markdown(where: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    """A table of all, and for each that is not as it should be, how to get there again."""
    machine = f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB, Python {where['python']}"
    variants = any(outcome.variant for outcome in outcomes)
    rule = "|---|---|--:|---|" if not variants else "|---|---|---|--:|---|"
    of = f"; Blizzard at {Version(**where['version'])}" if where["version"] else ""
    lines = [f"{machine}{of}; seed {where['seed']}", "", TITLES[variants], rule]
    lines += [_row(outcome, variants) for outcome in outcomes]
    for outcome in outcomes:
        if not outcome.good or (outcome.end is End.FAILED and not variants):
            lines += ["", *_failure(outcome)]
    return "\n".join([*lines, "", _verdict(outcomes), ""])


def as_json(where: dict[str, Any], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {"where": where, "good": all_good(outcomes), "campaigns": [outcome.to_json() for outcome in outcomes]}


def all_good(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.good for outcome in outcomes)


def _row(outcome: Outcome, variants: bool) -> str:
    untried = f"**not tried**: {'; '.join(outcome.untried)}" if outcome.untried else ""
    did = ". ".join(filter(None, (outcome.counted or "nothing", untried)))
    cells = [outcome.campaign, outcome.said, f"{outcome.secs:,.0f}", did]
    return f"| {' | '.join([outcome.variant, *cells] if variants else cells)} |"


def _failure(outcome: Outcome) -> list[str]:
    title = f"{outcome.campaign}, {outcome.variant}" if outcome.variant else outcome.campaign
    steps = [f"{number:4}. {step}" for number, step in enumerate(outcome.steps, 1)]
    why = outcome.why or "It passed: what is broken on purpose was not noticed."
    return [
        f"### {title}: {outcome.said}",
        "",
        "```",
        *why.splitlines(),
        *steps,
        "```",
        "",
        f"Again: `{outcome.repeat}`",
    ]


def _verdict(outcomes: Sequence[Outcome]) -> str:
    bad = [outcome for outcome in outcomes if not outcome.good]
    stopped = any(outcome.end is End.INTERRUPTED for outcome in outcomes)
    until = ", until it was interrupted" if stopped else ""
    if bad:
        return f"{len(bad)} of {len(outcomes)} are not as they should be{until}."
    what = "Each variant was found" if any(outcome.variant for outcome in outcomes) else "Nothing lost, nothing doubled"
    but = ". Not all was tried: the rows say what was not" if any(outcome.untried for outcome in outcomes) else ""
    return f"{what}, in {sum(outcome.secs for outcome in outcomes):,.0f} s{until}{but}."
