"""Dead letters as they are stored: which of them somebody asks for, and when they were written."""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are wanted. `matches`: of paths. `reason`: a part of the error, in any case of its letters; None:
    every one. Times are inclusive. `raw`: a part of the raw record; None: every letter, also of whole files."""

    matches: Callable[[str], bool]
    stages: frozenset[str]
    reason: str | None
    since_ts: float
    until_ts: float
    raw: str | None = None

    def wants(self, letter: Mapping[str, Any]) -> bool:
        written_ts = time_of(letter)
        return (
            self.matches(str(letter.get("path", "")))
            and (not self.stages or letter.get("stage") in self.stages)
            and (self.reason is None or self.reason.casefold() in str(letter.get("error", "")).casefold())
            and (written_ts is None or self.since_ts <= written_ts <= self.until_ts)
            and (self.raw is None or self.raw in (raw_of(letter) or ""))
        )


def time_of(letter: Mapping[str, Any]) -> float | None:
    """When it was written, in Unix seconds; None if it does not say."""
    try:
        return datetime.fromisoformat(str(letter.get("timestamp"))).timestamp()
    except ValueError:
        return None


def raw_of(letter: Mapping[str, Any]) -> str | None:
    """The raw record, with U+FFFD for bytes that are no UTF-8; None: it has none that can be read."""
    if isinstance(text := letter.get("raw"), str):
        return text
    try:
        return b64decode(letter["raw_base64"], validate=True).decode(errors="replace")
    except (KeyError, TypeError, ValueError):
        return None
