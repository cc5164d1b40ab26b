"""Turns a batch of queue messages into one segment per source. `plan_collect` is pure; `collect` executes the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from blizzard.collect.messages import (
    Event,
    FileArrived,
    Ignored,
    IgnoreReason,
    NotAnS3Event,
    is_newer,
    parse_message,
    printable_uri,
)
from blizzard.collect.routing import Routed, Router
from blizzard.errors import BlizzardError
from blizzard.manifest.segments import Entry, FoundBy


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the queue."""

    message_id: str
    body: str


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A poison message: it can never be parsed; `error` says why."""

    message_id: str
    error: NotAnS3Event


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """Entries to append for one source, one for each path, and the messages that they come from."""

    source_id: str
    entries: tuple[Entry, ...]
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """`merged` counts arrivals that a newer event for the same path replaced."""

    drafts: tuple[SegmentDraft, ...]
    ignored: tuple[Ignored, ...]
    bad: tuple[BadMessage, ...]
    merged: int


@dataclass(frozen=True, slots=True)
class Appended:
    """A draft that became segment `segment` of its source."""

    draft: SegmentDraft
    segment: int


@dataclass(frozen=True, slots=True)
class FailedAppend:
    """A draft that could not be stored: its messages must stay in the queue."""

    draft: SegmentDraft
    error: BlizzardError


@dataclass(frozen=True, slots=True)
class CollectResult:
    """The outcome of each message. Every event is in exactly one of the counts."""

    appended: tuple[Appended, ...]
    failed: tuple[FailedAppend, ...]
    ignored: tuple[Ignored, ...]
    bad: tuple[BadMessage, ...]
    merged: int

    @property
    def files_appended(self) -> int:
        return sum(len(done.draft.entries) for done in self.appended)

    @property
    def events(self) -> int:
        """Events in messages that could be parsed."""
        failed = sum(len(failure.draft.entries) for failure in self.failed)
        return self.files_appended + failed + len(self.ignored) + self.merged

    @property
    def failed_message_ids(self) -> tuple[str, ...]:
        """Messages that stay in the queue, each once: bad ones, and those with an entry that could not be appended."""
        unappended = (message_id for failure in self.failed for message_id in failure.draft.message_ids)
        return tuple(dict.fromkeys([*(bad.message_id for bad in self.bad), *unappended]))


class Append(Protocol):
    """Creates the next segment of a source and returns its number. Raises BlizzardError when storage fails."""

    def __call__(self, source_id: str, entries: Sequence[Entry], /) -> int: ...


def collect(messages: Iterable[Message], router: Router, append: Append) -> CollectResult:
    """Append the announced files. When a source fails, only the messages with entries for it fail."""
    plan = plan_collect(messages, router)
    appended: list[Appended] = []
    failed: list[FailedAppend] = []
    for draft in plan.drafts:
        try:
            appended.append(Appended(draft, append(draft.source_id, draft.entries)))
        except BlizzardError as error:
            failed.append(FailedAppend(draft, error))
    return CollectResult(tuple(appended), tuple(failed), plan.ignored, plan.bad, plan.merged)


def plan_collect(messages: Iterable[Message], router: Router) -> CollectPlan:
    """Group the events of all messages by source. A message with one bad record is bad as a whole."""
    planner = _Planner(router)
    for message in messages:
        try:
            events = parse_message(message.body)
        except NotAnS3Event as error:
            planner.bad.append(BadMessage(message.message_id, error))
            continue
        for event in events:
            planner.add(event, message.message_id)
    return planner.plan()


@dataclass(slots=True)
class _Draft:
    """The newest arrival of each path, in the order in which the paths first occurred."""

    arrivals: dict[str, FileArrived] = field(default_factory=dict)
    message_ids: dict[str, None] = field(default_factory=dict)

    def finished(self, source_id: str) -> SegmentDraft:
        entries = tuple(_entry(path, arrived) for path, arrived in self.arrivals.items())
        return SegmentDraft(source_id, entries, tuple(self.message_ids))


@dataclass(slots=True)
class _Planner:
    router: Router
    drafts: dict[str, _Draft] = field(default_factory=dict)
    ignored: list[Ignored] = field(default_factory=list)
    bad: list[BadMessage] = field(default_factory=list)
    merged: int = 0

    def add(self, event: Event, message_id: str) -> None:
        if isinstance(event, Ignored):
            self.ignored.append(event)
        elif routed := self.router.find(event.bucket, event.key):
            self._add_arrival(routed, event, message_id)
        else:
            self.ignored.append(Ignored(IgnoreReason.NO_SOURCE, printable_uri(event.bucket, event.key)))

    def _add_arrival(self, routed: Routed, arrived: FileArrived, message_id: str) -> None:
        draft = self.drafts.setdefault(routed.source_id, _Draft())
        draft.message_ids[message_id] = None
        known = draft.arrivals.get(routed.path)
        self.merged += known is not None
        if known is None or supersedes(arrived, known):
            draft.arrivals[routed.path] = arrived

    def plan(self) -> CollectPlan:
        drafts = tuple(draft.finished(source_id) for source_id, draft in self.drafts.items())
        return CollectPlan(drafts, tuple(self.ignored), tuple(self.bad), self.merged)


def supersedes(arrived: FileArrived, known: FileArrived) -> bool:
    """Whether `arrived` describes a later state of the same object than `known`.

    By sequencer. When one of them has none or both are equal, by time; at equal times `arrived` wins, which came last.
    """
    if arrived.sequencer is not None and known.sequencer is not None:
        if is_newer(arrived.sequencer, known.sequencer):
            return True
        if is_newer(known.sequencer, arrived.sequencer):
            return False
    return arrived.event_ts >= known.event_ts


def _entry(path: str, arrived: FileArrived) -> Entry:
    return Entry(
        path=path,
        size=arrived.size,
        etag=arrived.etag,
        event_ts=arrived.event_ts,
        found_by=FoundBy.EVENT,
        version_id=arrived.version_id,
        sequencer=arrived.sequencer,
    )
