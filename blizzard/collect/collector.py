"""A queue's messages become one segment per source. Planning is pure; `collect` then carries the plan out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from blizzard.collect.messages import Event, FileArrived, Ignored, NotAnS3Event, Reason, newer, parse_message, shown_uri
from blizzard.collect.routing import Routed, Router
from blizzard.errors import BlizzardError
from blizzard.manifest.segments import Entry, FoundBy


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the queue gave it."""

    message_id: str
    body: str


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A message that can never be understood; `error` says why."""

    message_id: str
    error: NotAnS3Event


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """What is to be appended for one source, one entry a path, and which messages asked for it."""

    source_id: str
    entries: tuple[Entry, ...]
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CollectPlan:
    """`merged` counts arrivals that a newer event for the same path made superfluous."""

    drafts: tuple[SegmentDraft, ...]
    ignored: tuple[Ignored, ...]
    bad: tuple[BadMessage, ...]
    merged: int


@dataclass(frozen=True, slots=True)
class Appended:
    """A draft that is now segment `segment` of its source."""

    draft: SegmentDraft
    segment: int


@dataclass(frozen=True, slots=True)
class FailedAppend:
    """A draft that storage did not take: its messages must come again."""

    draft: SegmentDraft
    error: BlizzardError


@dataclass(frozen=True, slots=True)
class CollectResult:
    """What became of each message. Every event is in exactly one of the counts."""

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
        """Events in messages that were understood."""
        failed = sum(len(failure.draft.entries) for failure in self.failed)
        return self.files_appended + failed + len(self.ignored) + self.merged

    @property
    def failed_message_ids(self) -> tuple[str, ...]:
        """Those to leave in the queue, each once: bad ones, and those with an entry that could not be appended."""
        unappended = (message_id for failure in self.failed for message_id in failure.draft.message_ids)
        return tuple(dict.fromkeys([*(bad.message_id for bad in self.bad), *unappended]))


class Append(Protocol):
    """Creates the next segment of a source and returns its number. Raises BlizzardError when storage does."""

    def __call__(self, source_id: str, entries: Sequence[Entry], /) -> int: ...


def collect(messages: Iterable[Message], router: Router, append: Append) -> CollectResult:
    """Append what the messages announce. One source's trouble stays with the messages that had entries for it."""
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
    """Sort what the messages say by source. A message that is bad in part is bad as a whole."""
    planner = _Planner(router)
    for message in messages:
        try:
            events = parse_message(message.body)
        except NotAnS3Event as error:
            planner.bad.append(BadMessage(message.message_id, error))
            continue
        for event in events:
            planner.take(event, message.message_id)
    return planner.plan()


@dataclass(slots=True)
class _Draft:
    """A segment in the making: the newest arrival of each path, in the order in which the paths came up."""

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

    def take(self, event: Event, message_id: str) -> None:
        if isinstance(event, Ignored):
            self.ignored.append(event)
        elif routed := self.router.find(event.bucket, event.key):
            self._add(routed, event, message_id)
        else:
            self.ignored.append(Ignored(Reason.NO_SOURCE, shown_uri(event.bucket, event.key)))

    def _add(self, routed: Routed, arrived: FileArrived, message_id: str) -> None:
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
    """Whether `arrived` describes a later state of the same object.

    By sequencer; where one lacks it or both are equal, by time, and of two at the same moment the one that came last.
    """
    if arrived.sequencer is not None and known.sequencer is not None:
        if newer(arrived.sequencer, known.sequencer):
            return True
        if newer(known.sequencer, arrived.sequencer):
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
