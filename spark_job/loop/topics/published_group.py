"""The consumer group to which committed offsets are published, for monitors of lag. Nobody waits for it: the rows are
committed before, and offsets that could not be published come with those of a later commit."""

from collections.abc import Callable, Mapping

from blizzard.errors import BlizzardError
from blizzard.kafka.brokers import Brokers
from blizzard.log import Log
from blizzard.state.topic_checkpoint import Partition

FIRST_PAUSE_SECS = 60.0
MAX_PAUSE_SECS = 3600.0


class PublishedGroup:
    """Of one source. `group` None: there is none. `clock` gives Unix seconds."""

    def __init__(
        self, group: str | None, source_id: str, *, brokers: Brokers, clock: Callable[[], float], log: Log
    ) -> None:
        self._group = group
        self._source_id = source_id
        self._brokers, self._clock, self._log = brokers, clock, log
        self._pause_secs = 0.0
        self._next_ts = 0.0

    def publish(self, next_offsets: Mapping[Partition, int]) -> None:
        """After a failure nothing is tried for FIRST_PAUSE_SECS, and for twice as long after each further one, up to
        MAX_PAUSE_SECS: a right that is missing would otherwise delay each commit."""
        if self._group is None or self._clock() < self._next_ts:
            return
        try:
            self._brokers.publish(self._group, next_offsets)
        except BlizzardError as error:
            self._pause_secs = min(MAX_PAUSE_SECS, 2 * self._pause_secs or FIRST_PAUSE_SECS)
            self._next_ts = self._clock() + self._pause_secs
            again = f"It is tried again with the first commit after {self._pause_secs:.0f} s."
            self._log("publish_failed", source=self._source_id, error=f"{error} {again}")
        else:
            self._pause_secs = 0.0
