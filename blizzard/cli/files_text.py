"""The answer of `blizzard files` as text."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from blizzard.audit.lives import EarlierCommit, Life
from blizzard.audit.topic_ranges import OffsetsLife
from blizzard.cli.files_topics import offsets_facts
from blizzard.cli.times import shown
from blizzard.log import one_line

_ANNOUNCED_BY = {
    "event": "an event",
    "sweep": "a sweep",
    "late": "a late sweep, or `audit --repair`",
    "repair": "an operator",
}
_SAME_SECS = 0.001
"""Times of announcements are stored in milliseconds."""


def show(lives: Sequence[Life | OffsetsLife]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for life in lives:
        title = f"{life.source or 'nowhere'}: {life.path or 'was not looked at'}"
        console.print(one_line(title), style="bold", markup=False)
        facts = facts_of(life) if isinstance(life, Life) else offsets_facts(life)
        for name, value in facts if life.problem is None else [("state", life.state), ("problem", life.problem)]:
            console.print(one_line(f" {name:<14} {value}"), markup=False)
    if not lives:
        console.print("no such files")


def facts_of(life: Life) -> Iterator[tuple[str, str]]:
    yield "state", life.state.replace("_", " ")
    if life.reason is not None:
        yield "why", life.reason
    if life.listed:
        yield "object", f"etag {life.etag}, {life.size or 0:,} bytes, modified {shown(life.modified_ts)}"
    if life.announced_by is not None or life.announced_ts is not None:
        yield "announced by", f"{_ANNOUNCED_BY.get(life.announced_by or '', 'unknown')}{_announced_at(life)}"
    if life.sequence is not None:
        version = "unknown" if life.table_version is None else f"{life.table_version:,}"
        yield "commit", f"{life.sequence:,} (table version {version}), {shown(life.committed_ts)}"
        in_table = "" if life.rows_found in (None, life.rows) else f"; {life.rows_found:,} in the table"
        yield "rows", f"{life.rows or 0:,}, and {life.rejected or 0:,} records refused{in_table}"
        if life.etag_committed != life.etag:
            yield "content", f"etag {life.etag_committed} was committed"
    if life.latency_secs is not None:
        since = _begin(life.announced_by, is_of_file=_is_of_file(life))
        yield "latency", f"{life.latency_secs:,.1f} s from {since} to the commit"
    for commit in life.earlier:
        yield "before that", _earlier(commit)


def _announced_at(life: Life) -> str:
    """What is known of an announcement is its time if an event made it, and else that of the file, in most cases."""
    if life.announced_ts is None:
        return ""
    if life.announced_by == "event":
        return f", of {shown(life.announced_ts)}"
    what = "the file is" if _is_of_file(life) else "the file or its announcement is"
    return f"; {what} of {shown(life.announced_ts)}"


def _is_of_file(life: Life) -> bool:
    """Whether its time is that of the file."""
    if life.announced_by == "sweep":
        return True
    if life.announced_ts is None or life.modified_ts is None:
        return False
    return abs(life.announced_ts - life.modified_ts) <= _SAME_SECS


def _begin(announced_by: str | None, *, is_of_file: bool) -> str:
    if announced_by == "event":
        return "its event"
    return "the time of the file" if is_of_file else "its announcement"


def _earlier(commit: EarlierCommit) -> str:
    version = "unknown" if commit.table_version is None else f"{commit.table_version:,}"
    facts = [f"commit {commit.sequence:,} (table version {version}), {shown(commit.committed_ts)}"]
    if commit.announced_by is not None:
        facts.append(f"announced by {_ANNOUNCED_BY.get(commit.announced_by, 'unknown')}")
    if commit.error is not None:
        facts.append(f"refused: {commit.error}")
    elif commit.rows is not None:
        facts.append(f"{commit.rows:,} rows, and {commit.rejected or 0:,} records refused")
    if commit.latency_secs is not None:
        since = _begin(commit.announced_by, is_of_file=commit.announced_by == "sweep")
        facts.append(f"{commit.latency_secs:,.1f} s after {since}")
    return "; ".join(facts)
