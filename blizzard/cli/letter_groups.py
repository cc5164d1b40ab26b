"""Dead letters in groups: those of one stage whose reasons differ only in their values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.state.stored_letters import time_of

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
ANY, SOME = "'…'", "N"


@dataclass(slots=True)
class LetterGroup:
    """`reason`: with its values left out. `error`: an example of it. `first_ts`, `last_ts`: of its oldest and newest
    letter."""

    stage: str
    reason: str
    files: int = 0
    records: int = 0
    first_ts: float | None = None
    last_ts: float | None = None
    path: str = ""
    error: str = ""
    _versions: set[int] = field(default_factory=set, repr=False)

    def add(self, letter: Mapping[str, Any]) -> None:
        """`files` counts versions of files, of which `records` were refused; a letter of a whole file has none."""
        version = hash((letter.get("path"), letter.get("etag")))
        if version not in self._versions:
            self._versions.add(version)
            self.files += 1
        self.records += "row" in letter
        written_ts = time_of(letter)
        if not self.path:
            self.path, self.error = str(letter.get("path", "")), str(letter.get("error", ""))
        if written_ts is not None:
            self.first_ts = written_ts if self.first_ts is None else min(self.first_ts, written_ts)
            self.last_ts = written_ts if self.last_ts is None else max(self.last_ts, written_ts)

    def as_document(self) -> dict[str, Any]:
        names = ("stage", "reason", "files", "records", "first_ts", "last_ts", "path", "error")
        return {name: getattr(self, name) for name in names}


class LetterGroups:
    """By stage and reason."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], LetterGroup] = {}

    def add(self, letter: Mapping[str, Any]) -> None:
        stage, reason = str(letter.get("stage", "")), reason_of(str(letter.get("error", "")))
        self._groups.setdefault((stage, reason), LetterGroup(stage, reason)).add(letter)

    def largest_first(self) -> list[LetterGroup]:
        return sorted(self._groups.values(), key=lambda each: (-each.files - each.records, each.stage, each.reason))


def reason_of(error: str) -> str:
    """An error without the values in it."""
    return _NUMBER.sub(SOME, _QUOTED.sub(ANY, error.partition("\n")[0]))
