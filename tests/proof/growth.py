"""Whether something grows: the first third of its samples beside the last, after some that are a start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

START_SHARE = 0.2
"""Of the samples of a life, left out: what a process takes until it has done everything once."""
FEWEST = 12


@dataclass(frozen=True, slots=True)
class Bound:
    """The median of the last third may be `factor` times that of the first third, and `slack` more."""

    factor: float
    slack: float
    unit: str
    fewest: int = FEWEST
    """Samples below which nothing is said."""


BOUNDS: Mapping[str, Bound] = {
    "memory of the driver": Bound(1.1, 24.0, "MiB"),
    "memory of the JVM": Bound(1.25, 250.0, "MiB", fewest=60),
    "number of open files": Bound(1.0, 6.0, "files"),
    "size of the state": Bound(1.1, 600.0, "bytes"),
    "number of segments": Bound(1.0, 6.0, "segments"),
    "time of a commit": Bound(1.5, 0.3, "s", fewest=200),
}
"""By what is measured. A JVM takes what its heap may have; a first minute says nothing of either it or of time."""


def growth(name: str, samples: Sequence[float]) -> str | None:
    """What is wrong, in words; None if nothing is, or if too little is known."""
    bound = BOUNDS[name]
    settled = samples[int(len(samples) * START_SHARE) :]
    if len(settled) < bound.fewest:
        return None
    third = len(settled) // 3
    first, last = median(settled[:third]), median(settled[-third:])
    most = first * bound.factor + bound.slack
    if last <= most:
        return None
    return (
        f"{name} grows: {first:,.1f} {bound.unit} at first, {last:,.1f} {bound.unit} at last "
        f"(expected at most {most:,.1f}), over {len(settled)} samples"
    )
