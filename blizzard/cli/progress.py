"""Shows the job's events for `blizzard run`."""

import sys
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from blizzard.log import one_line
from blizzard.state.schema_changes import FieldChange
from blizzard.state.unknown_fields import UnknownFields

QUIET = {
    "base_written",
    "batch_read",
    "lag_measured",
    "ledger_opened",
    "ledger_run_written",
    "moved_on",
    "not_warmed_up",
    "positions_recovered",
    "recovered",
    "spark_started",
    "suspects_judged",
    "warmed_up",
}
"""Events that only update the progress line."""
ERRORS = {"source_failed", "spark_lost", "configuration_wrong", "configuration_unreadable", "repair_failed"}
OF_COMMAND = {"configuration_wrong", "configuration_unreadable", "repair_failed"}
"""Those after which the command ends, so they look like what it says itself."""


class Progress:
    """Prints one line for each event. On a terminal a progress line below them shows the current step. `to_stderr`: for
    a command whose answer is its output; without a terminal it then prints nothing but errors."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._quiet = to_stderr and not self._stream.isatty()
        self._console = Console(stderr=to_stderr, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._of_topics = set[str]()
        """Sources that read topics: one of their commits has partitions, and not files."""
        self.errors = list[str]()
        """What was shown of them."""

    @property
    def error_shown(self) -> bool:
        return bool(self.errors)

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._status = self._console.status("starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, event: dict[str, Any]) -> None:
        name = str(event["event"])
        if name == "positions_recovered":
            self._of_topics.add(event["source"])
        of_topics = name == "drained" and event["source"] in self._of_topics
        shown = _drained(event, of_topics=True) if of_topics else _TEXTS.get(name, _any_event)(event)
        text = Text(one_line(shown))
        if self._status is not None:
            self._status.update(text)
        if name in ERRORS:
            self.errors.append(shown)
            before = "blizzard: " if name in OF_COMMAND else ""
            Console(stderr=True, highlight=False, soft_wrap=True).print(Text(before), text, sep="", style="red")
        elif name not in QUIET and not self._quiet and not _is_empty_sweep(event):
            self._console.print(text)


def _is_empty_sweep(event: dict[str, Any]) -> bool:
    return event["event"] == "swept" and not event["missed"]


def _any_event(event: dict[str, Any]) -> str:
    rest = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("ts", "event"))
    return f"{str(event['event']).replace('_', ' ')}: {rest}"


def _swept(event: dict[str, Any]) -> str:
    return f"{event['source']}: {event['kind']} sweep listed {event['listed']:,} files, {event['missed']:,} of them new"


def _planned(event: dict[str, Any]) -> str:
    return f"{event['source']}: reading batch {event['sequence']} of {event['files']:,} files, {event['bytes']:,} bytes"


def _repair_planned(event: dict[str, Any]) -> str:
    return f"{event['source']}: reading {event['files']:,} files once more, {event['bytes']:,} bytes"


def _replay_planned(event: dict[str, Any]) -> str:
    return f"{event['source']}: reading {event['messages']:,} messages of {event['partitions']:,} partitions once more"


def _committed(event: dict[str, Any]) -> str:
    dead = f", dead-lettered {event['dead_files']:,} files and {event['dead_records']:,} records"
    return (
        f"{event['source']}: committed batch {event['sequence']}: {event['files']:,} files, {event['rows']:,} rows"
        + (dead if event["dead_files"] or event["dead_records"] else "")
    )


def _ranges_planned(event: dict[str, Any]) -> str:
    return (
        f"{event['source']}: reading batch {event['sequence']} of {event['offsets']:,} offsets in "
        f"{event['partitions']:,} partitions, of {event['waiting']:,} that wait"
    )


def _lag_measured(event: dict[str, Any]) -> str:
    waits = "" if not event["lag_secs"] else f", the first of which waited for {event['lag_secs']:,.1f} s"
    return f"{event['source']}: topic {event['topic']} was {event['lag']:,} messages ahead{waits}"


def _messages_committed(event: dict[str, Any]) -> str:
    if not event["partitions"]:
        return f"{event['source']}: committed batch {event['sequence']}: where it stands, without a message"
    dead = f", dead-lettered {event['dead_records']:,} messages" if event["dead_records"] else ""
    return (
        f"{event['source']}: committed batch {event['sequence']}: {event['rows']:,} rows of "
        f"{event['partitions']:,} partitions{dead}"
    )


def _dead(event: dict[str, Any]) -> str:
    return f"{event['source']}: dead-lettered {event['path']} ({event['stage']}): {event['error']}"


def _unknown_fields(event: dict[str, Any]) -> str:
    return f"{event['source']}: no column for {UnknownFields.from_document(event)}"


def _misfits(event: dict[str, Any]) -> str:
    return f"{event['source']}: kept beside their columns, which they do not fit: {UnknownFields.from_document(event)}"


def _changed(event: dict[str, Any]) -> str:
    changes = [f"{FieldChange.from_document(field)}" for field in event["fields"]]
    return f"{event['source']}: the table's columns change: {', '.join(changes)}"


def _not_changed(event: dict[str, Any]) -> str:
    reasons = [f"{field['path']} ({field['reason']})" for field in event["fields"]]
    return f"{event['source']}: kept beside the columns: {', '.join(reasons)}"


def _columns_left_out(event: dict[str, Any]) -> str:
    names = ", ".join(event["columns"])
    return f"{event['source']}: new rows have null in {names}, which no source of the pipeline has any more"


def _written_twice(event: dict[str, Any]) -> str:
    return f"{event['source']}: rows are written twice, the second time by Spark, because of {event['reason']}"


def _drained(event: dict[str, Any], *, of_topics: bool = False) -> str:
    if not event["commits"]:
        return f"{event['source']}: nothing new"
    files = "" if of_topics else f"{event['files']:,} files and "
    return f"{event['source']}: done, {files}{event['rows']:,} rows in {event['commits']:,} commits"


def _failed(event: dict[str, Any]) -> str:
    return f"{event['source']}: failed: {event['error']}"


def _inferred(event: dict[str, Any]) -> str:
    left_out = "".join(f"; {why}" for why in event["left_out"])
    places = f"{event['files']:,} files" if "files" in event else f"{event['partitions']:,} partitions"
    return (
        f"{event['source']}: the schema of the table, by {event['records']:,} records of {places}: "
        f"{event['schema']}{left_out}"
    )


def _needs_spark(event: dict[str, Any]) -> str:
    return f"{event['source']}: Spark is needed for {event['reason']}"


def _wrong(event: dict[str, Any]) -> str:
    return str(event["problem" if "problem" in event else "error"])


def _lost(event: dict[str, Any]) -> str:
    return f"failed: {event['error']}"


_TEXTS = {
    "configuration_wrong": _wrong,
    "configuration_unreadable": _wrong,
    "swept": _swept,
    "batch_planned": _planned,
    "repair_planned": _repair_planned,
    "replay_planned": _replay_planned,
    "batch_committed": _committed,
    "ranges_planned": _ranges_planned,
    "lag_measured": _lag_measured,
    "messages_committed": _messages_committed,
    "file_dead_lettered": _dead,
    "unknown_fields": _unknown_fields,
    "misfits": _misfits,
    "schema_changed": _changed,
    "schema_not_changed": _not_changed,
    "schema_inferred": _inferred,
    "columns_left_out": _columns_left_out,
    "rows_written_twice": _written_twice,
    "drained": _drained,
    "repair_failed": _wrong,
    "source_failed": _failed,
    "spark_lost": _lost,
    "spark_needed": _needs_spark,
}
