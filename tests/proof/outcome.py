"""The result of one campaign, or of one of its variants."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tests.proof.campaign import FILES, SPARK_SHARE


class End(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    """It found something lost, doubled or silently dropped; with a variant, its fault."""
    OTHERWISE = "failed for another reason"
    """Of a variant: the finding is not its fault."""
    BROKE = "broke"
    """The campaign ended with an error that is not a finding."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    campaign: str
    variant: str
    """Empty: the unbroken program."""
    seed: int
    minutes: float
    """The minutes that it was given; `secs` is the time that it took."""
    end: End
    secs: float
    counts: Mapping[str, int]
    why: str = ""
    steps: Sequence[str] = ()
    files: int = FILES
    spark_share: float = SPARK_SHARE
    """Both as in `Run`."""
    untried: Sequence[str] = ()
    """Of the unbroken program: what a longer run tries and this one did not, as far as the campaign knows."""

    @property
    def good(self) -> bool:
        """A variant must be found."""
        return self.end is End.INTERRUPTED or self.end is (End.FAILED if self.variant else End.PASSED)

    @property
    def said(self) -> str:
        if not self.variant or self.end not in (End.PASSED, End.FAILED):
            return str(self.end)
        return "found" if self.good else "NOT FOUND"

    @property
    def repeat(self) -> str:
        """The command that repeats it."""
        words = [self.campaign, "--minutes", f"{self.minutes:.4g}", "--seed", f"{self.seed}"]
        words += ["--files", f"{self.files}"] if self.files != FILES else []
        words += ["--spark-share", f"{self.spark_share:g}"] if self.spark_share != SPARK_SHARE else []
        words += ["--variant", self.variant] if self.variant else []
        return shlex.join(["python", "-m", "tests.proof", *words])

    @property
    def counted(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items() if count)

    def to_json(self) -> dict[str, Any]:
        listed = {"steps": [*self.steps], "untried": [*self.untried]}
        return {**asdict(self), **listed, "repeat": self.repeat}
