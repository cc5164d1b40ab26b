"""The lag of each topic in the log, from which a stack has its metrics. It costs the brokers no request: a plan has
asked for the ends of the partitions, and tasks have read the first message that waited."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from blizzard.log import Log
from blizzard.state.topic_checkpoint import Partition, partition_of_path
from spark_job.ports.reader import Outcome

PAUSE_SECS = 60.0
MAX_TOPICS = 20
MAX_PARTITIONS = 20
"""Of a topic: a longer line may become two events of a log."""


@dataclass(frozen=True, slots=True)
class Waited:
    """Of a partition, as a plan found it. `lag`: offsets that waited, of which some may have no message. `lag_secs`:
    for how long the first message of them had waited; None: no message has told."""

    partition: int
    lag: int
    lag_secs: float | None


class LagLog:
    """Of one source. `clock` gives Unix seconds."""

    def __init__(self, source_id: str, clock: Callable[[], float], log: Log) -> None:
        self._source_id, self._clock, self._log = source_id, clock, log
        self._found: Mapping[str, list[Waited]] = {}
        """By topic, what is to be said of the last plan."""
        self._said_ts: float | None = None
        self._behind: Collection[str] = ()
        """Topics that had a lag when it was last said."""

    def read(self, lags: Mapping[Partition, int], outcomes: Iterable[Outcome], began_ts: float) -> None:
        """Messages of the plan that has these lags were read, and will be committed. `began_ts`: since when, in Unix
        seconds."""
        since = {partition_of_path(one.path): one.first_ts for one in outcomes if one.first_ts is not None}
        secs = {each: max(0.0, round(began_ts - ts, 3)) for each, ts in since.items() if each is not None}
        self._found = _by_topic(lags, secs)

    def committed(self) -> None:
        """Says what the commit has found, if it was last said PAUSE_SECS ago."""
        if self._found and self._is_due():
            self._say(self._found)

    def idle(self, lags: Mapping[Partition, int]) -> None:
        """Says that nothing more can be read: at once if there was a lag, and there is none now."""
        is_over = self._behind and not any(lags.values())
        if lags and (is_over or self._is_due()):
            self._say(_by_topic(lags, {}))

    def _is_due(self) -> bool:
        return self._said_ts is None or self._clock() - self._said_ts >= PAUSE_SECS

    def _say(self, found: Mapping[str, list[Waited]]) -> None:
        self._found, self._said_ts = {}, self._clock()
        most = sorted(found, key=lambda topic: (-_sum(found[topic]), topic not in self._behind, topic))[:MAX_TOPICS]
        self._behind = {topic for topic in most if _sum(found[topic])}
        for topic in most:
            behind = sorted((one for one in found[topic] if one.lag), key=lambda one: (-one.lag, one.partition))
            self._log(
                "lag_measured",
                source=self._source_id,
                topic=topic,
                lag=_sum(behind),
                lag_secs=_longest(behind),
                partitions=[asdict(one) for one in behind[:MAX_PARTITIONS]],
                more=max(0, len(behind) - MAX_PARTITIONS),
            )


def _by_topic(lags: Mapping[Partition, int], secs: Mapping[Partition, float]) -> dict[str, list[Waited]]:
    found: dict[str, list[Waited]] = {}
    for partition, lag in lags.items():
        topic, number = partition
        found.setdefault(topic, []).append(Waited(number, lag, secs.get(partition)))
    return found


def _sum(partitions: Iterable[Waited]) -> int:
    return sum(one.lag for one in partitions)


def _longest(behind: "list[Waited]") -> float | None:
    """0: nothing waits. None: nobody knows."""
    known = [one.lag_secs for one in behind if one.lag_secs is not None]
    return max(known, default=None) if behind else 0.0
