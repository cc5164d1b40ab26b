"""Whether something grows: the first third of its samples beside the last, after some that are a start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

START_SHARE = 0.2
"""Of the samples of a life, left out: what a process takes until it has done everything once."""
FEWEST = 12


class Of(Enum):
    """Whose it is, which is how long it can grow."""

    JOB = "the job"
    JVM = "the JVM"
    TABLE = "the table"
    """Outlives both."""


@dataclass(frozen=True, slots=True)
class Closer:
    """The factor and the slack of a long series: what grows a little with each sample has grown by more there, while
    noise does no more than in a short one."""

    samples: int
    """After the start, from which on they hold."""
    factor: float
    slack: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The last third may have `factor` times what the first third has, and `slack` more. `share`: of a third's samples,
    so many lie below the one that stands for it; one half is the median."""

    of: Of
    factor: float
    slack: float
    unit: str
    fewest: int = FEWEST
    """Samples after the start below which nothing is said."""
    start: int = 0
    """Samples that are left out at least."""
    share: float = 0.5
    closer: Closer | None = None

    def most(self, first: float, samples: int) -> float:
        """That the last third may have, in a series of so many samples after the start."""
        if self.closer is not None and samples >= self.closer.samples:
            return first * self.closer.factor + self.closer.slack
        return first * self.factor + self.slack

    def left_out(self, samples: int) -> int:
        """Of so many samples, those that are a start."""
        return max(self.start, int(samples * START_SHARE))

    @property
    def needed(self) -> int:
        """Samples from which on something is said."""
        return next(some for some in count(self.fewest) if some - self.left_out(some) >= self.fewest)


BOUNDS: Mapping[str, Bound] = {
    "memory of the driver": Bound(Of.JOB, 1.1, 24.0, "MiB"),
    "memory of the JVM": Bound(Of.JVM, 1.25, 250.0, "MiB", fewest=60),
    "live heap of the JVM": Bound(Of.JVM, 1.1, 24.0, "MiB", fewest=60, start=20),
    "number of open files": Bound(Of.JOB, 1.0, 6.0, "files"),
    "number of open files of the JVM": Bound(Of.JVM, 1.0, 40.0, "files", fewest=40),
    "size of the state": Bound(Of.TABLE, 1.1, 600.0, "bytes"),
    "number of partitions in the state": Bound(Of.TABLE, 1.0, 3.0, "partitions"),
    "number of segments": Bound(Of.TABLE, 1.0, 6.0, "segments"),
    "size of the manifest": Bound(Of.TABLE, 1.25, 6_000.0, "bytes"),
    "time of a commit": Bound(
        Of.TABLE, 1.5, 400.0, "ms", fewest=40, share=0.1, closer=Closer(300, factor=1.2, slack=100.0)
    ),
}
"""By what is measured. A JVM takes what its heap may have: a first minute says nothing of its memory. What is alive in
its heap after a collection says more, once Spark keeps as many of the last queries as it ever will: a tenth of a MiB
that stays with each commit is above the bound after a thousand of them. Of the times the quickest tenth counts, since
what else the machine does makes others longer; 1.5 ms more with each commit are above the closer bound after eight
hundred of them, and 1 ms after 1,300, though a JVM that warms up makes them a fifth shorter meanwhile."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of something that was measured often enough."""

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
    """None if too little is known."""
    bound = BOUNDS[name]
    settled = samples[bound.left_out(len(samples)) :]
    if len(settled) < bound.fewest:
        return None
    third = len(settled) // 3
    first, last = _typical(settled[:third], bound.share), _typical(settled[-third:], bound.share)
    return Judgement(name, first, last, bound.most(first, len(settled)), len(settled))


def _typical(samples: Sequence[float], share: float) -> float:
    return sorted(samples)[int((len(samples) - 1) * share)]
