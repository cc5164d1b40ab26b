"""Whether a source of topics needs a run: no function asks the brokers, so the schedule and the last run decide."""

from dataclasses import dataclass

from blizzard.config.published import PublishedTopics
from blizzard.dispatch.run_records import SourcePosition
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_state import readable_copy
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Of a pipeline's last run, in Unix seconds. `started_ts` None: there was none. `active`: it may not have ended."""

    now_ts: float
    started_ts: float | None = None
    active: bool = False


@dataclass(frozen=True, slots=True)
class TopicBacklog:
    """One source. `messages`: offsets that its last commit left to be read; 0 also if that is not known. `oldest_ts`:
    since when something waits, be it messages or a run that is due."""

    position: SourcePosition
    messages: int = 0
    oldest_ts: float | None = None

    @property
    def needs_run(self) -> bool:
        return self.position.has_backlog


def topic_backlog(
    store: ObjectStore, source: PublishedTopics, examined: SourcePosition | None, times: RunTimes
) -> TopicBacklog:
    """`store`: the table's. `examined`: the position at the start of a run that succeeded, and read to the end.

    A run is due `run_interval_secs` after the start of the last one, and at once when that has not read to the end.
    """
    checkpoint = readable_copy(SourceIdentity(source.pipeline, source.name, source.state_prefix), store)
    due_ts = None if times.started_ts is None else times.started_ts + source.run_interval_secs
    is_due = due_ts is None or examined is None or times.now_ts >= due_ts
    sequence, messages = (-1, 0) if checkpoint is None else (checkpoint.sequence, checkpoint.waiting or 0)
    since = [due_ts] if is_due and not times.active else []
    if checkpoint is not None and messages and (times.active or examined is None):
        since.append(checkpoint.last_update_ts)
    position = SourcePosition(sequence, 0, 0, None, has_backlog=is_due)
    known = [ts for ts in since if ts is not None]
    return TopicBacklog(position, messages, min(min(known), times.now_ts) if known else None)
