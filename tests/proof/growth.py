"""Whether something grows: the first third of its samples beside the last, after some that are a start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

START_SHARE = 0.2
"""Of the samples of a life, left out: what a process takes until it has done everything once."""
FEWEST = 12


@dataclass(frozen=True, slots=True)
class Bound:
    """The last third may have `factor` times what the first third has, and `slack` more. `share`: of a third's samples,
    so many lie below the one that stands for it; one half is the median."""

    factor: float
    slack: float
    unit: str
    fewest: int = FEWEST
    """Samples below which nothing is said."""
    share: float = 0.5


BOUNDS: Mapping[str, Bound] = {
    "memory of the driver": Bound(1.1, 24.0, "MiB"),
    "memory of the JVM": Bound(1.25, 250.0, "MiB", fewest=60),
    "live heap of the JVM": Bound(1.25, 64.0, "MiB"),
    "number of open files": Bound(1.0, 6.0, "files"),
    "number of open files of the JVM": Bound(1.0, 40.0, "files", fewest=40),
    "size of the state": Bound(1.1, 600.0, "bytes"),
    "number of partitions in the state": Bound(1.0, 3.0, "partitions"),
    "number of segments": Bound(1.0, 6.0, "segments"),
    "size of the manifest": Bound(1.25, 6_000.0, "bytes"),
    "time of a commit": Bound(1.5, 400.0, "ms", fewest=40, share=0.25),
}
"""By what is measured. A JVM takes what its heap may have: a first minute says nothing of its memory. Of the times the
quicker quarter counts, since what else the machine does makes some of them longer."""


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
    settled = samples[int(len(samples) * START_SHARE) :]
    if len(settled) < bound.fewest:
        return None
    third = len(settled) // 3
    first, last = _typical(settled[:third], bound.share), _typical(settled[-third:], bound.share)
    return Judgement(name, first, last, first * bound.factor + bound.slack, len(settled))


def _typical(samples: Sequence[float], share: float) -> float:
    return sorted(samples)[int((len(samples) - 1) * share)]
