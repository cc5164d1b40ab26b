"""Whether something grows: compares the first third of its samples with the last, without a warm-up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

START_SHARE = 0.2
"""Share of the samples of a process that is left out: memory that it takes until it has done everything once."""
FEWEST = 12


class Of(Enum):
    """The process that a measure belongs to, which limits how long it can grow."""

    JOB = "the job"
    JVM = "the JVM"
    TABLE = "the table"
    """Outlives both."""


@dataclass(frozen=True, slots=True)
class Closer:
    """Factor and slack of a long series: slow growth adds up there, while noise is the same as in a short one."""

    samples: int
    """Number of samples after the warm-up from which on they apply."""
    factor: float
    slack: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The last third may have `factor` times the value of the first third, plus `slack`. `share`: the quantile of a
    third's samples that is compared; one half is the median."""

    of: Of
    factor: float
    slack: float
    unit: str
    fewest: int = FEWEST
    """Fewer samples after the warm-up give no result."""
    start: int = 0
    """Minimum number of samples in the warm-up."""
    share: float = 0.5
    closer: Closer | None = None

    def most(self, first: float, samples: int) -> float:
        """The limit of the last third, in a series of so many samples after the warm-up."""
        if self.closer is not None and samples >= self.closer.samples:
            return first * self.closer.factor + self.closer.slack
        return first * self.factor + self.slack

    def left_out(self, samples: int) -> int:
        """The number of warm-up samples of so many."""
        return max(self.start, int(samples * START_SHARE))

    @property
    def needed(self) -> int:
        """The number of samples from which on there is a result."""
        return next(some for some in count(self.fewest) if some - self.left_out(some) >= self.fewest)


BOUNDS: Mapping[str, Bound] = {
    "memory of the driver": Bound(Of.JOB, 1.1, 24.0, "MiB"),
    "memory of the JVM": Bound(Of.JVM, 1.25, 250.0, "MiB", fewest=60),
    "live heap of the JVM": Bound(Of.JVM, 1.1, 24.0, "MiB", fewest=60, start=20),
    "number of open files": Bound(Of.JOB, 1.0, 6.0, "files"),
    # A job of the local engine reads, too, and keeps open for a minute and a half what it had at once: at most 128 to
    # read objects, and some of deltalake and botocore.
    "number of connections": Bound(Of.JOB, 1.0, 160.0, "connections"),
    "number of open files of the JVM": Bound(Of.JVM, 1.0, 40.0, "files", fewest=40),
    "size of the state": Bound(Of.TABLE, 1.1, 600.0, "bytes"),
    "number of partitions in the state": Bound(Of.TABLE, 1.0, 6.0, "partitions"),
    "number of segments": Bound(Of.TABLE, 1.0, 6.0, "segments"),
    "number of runs of the ledger": Bound(Of.TABLE, 1.0, 5.0, "runs"),
    # Of few files most is the runs' indexes.
    "bytes of the ledger per file": Bound(Of.TABLE, 1.25, 60.0, "bytes", fewest=60),
    "time of looking up suspects": Bound(Of.TABLE, 1.5, 100.0, "ms", fewest=40, share=0.1),
    "size of the manifest": Bound(Of.TABLE, 1.25, 6_000.0, "bytes"),
    "time of a commit of the local engine": Bound(Of.TABLE, 1.5, 200.0, "ms", fewest=40, share=0.1),
    "time of a commit": Bound(
        Of.TABLE, 1.5, 400.0, "ms", fewest=40, share=0.1, closer=Closer(300, factor=1.2, slack=100.0)
    ),
}
"""By measure.

The memory of a JVM grows to its heap's limit, so its first minutes show nothing. The live heap after a collection shows
more, once Spark keeps its maximum number of past queries: 0.1 MiB that stays with each commit exceeds the bound after a
thousand commits. Of the times, the fastest tenth is compared, because other work on the machine makes commits slower.
1.5 ms more with each commit exceed the closer bound after eight hundred commits, and 1 ms after 1,300, although a JVM
that warms up makes commits a fifth faster meanwhile.
"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for a measure with enough samples."""

    name: str
    first: float
    last: float
    most: float
    samples: int

    @property
    def grew(self) -> bool:
        return self.last > self.most

    @property
    def unit(self) -> str:
        return BOUNDS[self.name].unit

    def __str__(self) -> str:
        unit = self.unit
        verb = "grows" if self.grew else "does not grow"
        return (
            f"{self.name} {verb}: {self.first:,.1f} {unit} at first, {self.last:,.1f} {unit} at last "
            f"(expected at most {self.most:,.1f}), over {self.samples} samples"
        )


def judged(name: str, samples: Sequence[float]) -> Judgement | None:
    """None with too few samples."""
    bound = BOUNDS[name]
    settled = samples[bound.left_out(len(samples)) :]
    if len(settled) < bound.fewest:
        return None
    third = len(settled) // 3
    first, last = _typical(settled[:third], bound.share), _typical(settled[-third:], bound.share)
    return Judgement(name, first, last, bound.most(first, len(settled)), len(settled))


def _typical(samples: Sequence[float], share: float) -> float:
    return sorted(samples)[int((len(samples) - 1) * share)]
