"""What came of one campaign, or of one of its broken variants."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class End(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    """It found something that is lost, doubled or silent; of a variant, what is broken there."""
    OTHERWISE = "failed for another reason"
    """Of a variant: what it found is not what is broken there."""
    BROKE = "broke"
    """The campaign itself came to no end: an error that is no finding."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    campaign: str
    variant: str
    """Empty: of the program as it is."""
    seed: int
    minutes: float
    """What it was given; `secs` is what it took."""
    end: End
    secs: float
    counts: Mapping[str, int]
    why: str = ""
    steps: Sequence[str] = ()
    untried: Sequence[str] = ()
    """Of the program as it is: what a longer run does and this one did not, as far as the campaign knows."""

    @property
    def good(self) -> bool:
        """A variant is there to be found."""
        return self.end is End.INTERRUPTED or self.end is (End.FAILED if self.variant else End.PASSED)

    @property
    def said(self) -> str:
        if not self.variant or self.end not in (End.PASSED, End.FAILED):
            return str(self.end)
        return "found" if self.good else "NOT FOUND"

    @property
    def repeat(self) -> str:
        """The command that does the same again."""
        words = [self.campaign, "--minutes", f"{self.minutes:.4g}", "--seed", f"{self.seed}"]
        words += ["--variant", self.variant] if self.variant else []
        return shlex.join(["python", "-m", "tests.proof", *words])

    @property
    def counted(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items() if count)

    def to_json(self) -> dict[str, Any]:
        listed = {"steps": [*self.steps], "untried": [*self.untried]}
        return {**asdict(self), **listed, "repeat": self.repeat}
