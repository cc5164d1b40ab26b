"""Dead letters in groups: those of one stage whose reasons differ only in their values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.state.stored_letters import time_of

_VALUE = re.compile(r"('[^']*'|\"[^\"]*\"|`[^`]*`|\d+(?:[.,:]\d+)*)")
ANY, SOME = "'…'", "N"


@dataclass(slots=True)
class LetterGroup:
    """`reason`: with those of its values left out that are not the same in all letters. `error`: an example of it.
    `first_ts`, `last_ts`: of its oldest and newest letter."""

    stage: str
    reason: str = ""
    files: int = 0
    records: int = 0
    first_ts: float | None = None
    last_ts: float | None = None
    path: str = ""
    error: str = ""
    _versions: set[int] = field(default_factory=set, repr=False)
    _parts: list[str] = field(default_factory=list, repr=False)
    """Of the reason: what is the same in each error of its kind, and at the odd places the values."""

    def add(self, letter: Mapping[str, Any]) -> None:
        """`files` counts versions of files, of which `records` were refused; a letter of a whole file has none."""
        version = hash((letter.get("path"), letter.get("etag")))
        if version not in self._versions:
            self._versions.add(version)
            self.files += 1
        self.records += "row" in letter
        written_ts = time_of(letter)
        error = str(letter.get("error", ""))
        if not self.path:
            self.path, self.error = str(letter.get("path", "")), error
        if not self._parts or error != self.error:
            self._learn(_parts(error))
        if written_ts is not None:
            self.first_ts = written_ts if self.first_ts is None else min(self.first_ts, written_ts)
            self.last_ts = written_ts if self.last_ts is None else max(self.last_ts, written_ts)

    def _learn(self, parts: list[str]) -> None:
        known = self._parts or parts
        if len(known) != len(parts):  # one of the errors has a letter N of its own
            known = [_left_out(part) if at % 2 else part for at, part in enumerate(known)]
        else:
            known = [one if one == other else _left_out(one) for one, other in zip(known, parts, strict=True)]
        self._parts, self.reason = known, "".join(known)

    def as_document(self) -> dict[str, Any]:
        names = ("stage", "reason", "files", "records", "first_ts", "last_ts", "path", "error")
        return {name: getattr(self, name) for name in names}


class LetterGroups:
    """By stage and reason."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], LetterGroup] = {}

    def add(self, letter: Mapping[str, Any]) -> None:
        stage, kind = str(letter.get("stage", "")), kind_of(str(letter.get("error", "")))
        self._groups.setdefault((stage, kind), LetterGroup(stage)).add(letter)

    def largest_first(self) -> list[LetterGroup]:
        return sorted(self._groups.values(), key=lambda each: (-each.files - each.records, each.stage, each.reason))


def kind_of(error: str) -> str:
    """An error without the values in it."""
    return "".join(_left_out(part) if at % 2 else part for at, part in enumerate(_parts(error)))


def _parts(error: str) -> list[str]:
    """Of its first line; values are at the odd places."""
    return _VALUE.split(error.partition("\n")[0])


def _left_out(value: str) -> str:
    return SOME if value[0].isdigit() or value == SOME else ANY
