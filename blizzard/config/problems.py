"""The problems of a configuration, each with its file, line and field."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from blizzard.log import one_line

Path = tuple[str | int, ...]
"""Where a value is in the configuration: keys, and indexes into lists."""

MAX_CHARACTERS = 1000
"""Of one problem's text, since names in the file may be longer."""
_PLAIN = re.compile(r"[\w-]{1,80}")


@dataclass(frozen=True, slots=True)
class Problem:
    file: str
    line: int | None
    """1-based; None when the file could not be read at all."""
    path: Path
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return one_line(": ".join(filter(None, (place, dotted(self.path), self.text))))


def dotted(path: Path) -> str:
    """`pipelines.events.partition_by[0]`; a key with other characters is quoted."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _PLAIN.fullmatch(part) else f"{part!r:.80}")
    return out


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean …? `, to be followed by the rest of the text. Empty if no known word is similar."""
    close = get_close_matches(word, list(known), n=1)
    return f"did you mean `{close[0]}`? " if close else ""


def _with_parents(path: Path) -> list[Path]:
    """The path itself, then its parents up to the whole file."""
    return [path[:n] for n in range(len(path), -1, -1)]


class Problems:
    """Collects problems, and tells which parts of the configuration have one."""

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self._file = file
        self._lines = lines
        self._found: dict[tuple[Path, str], Problem] = {}
        self._paths: set[Path] = set()
        self._paths_and_parents: set[Path] = set()

    def add(self, path: Path, text: str) -> None:
        self._paths.add(path)
        self._paths_and_parents.update(_with_parents(path))
        shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
        self._found[path, text] = Problem(self._file, self.line_of(path), path, shown)

    def line_of(self, path: Path) -> int:
        """The line of the value, or of its nearest parent when the value is missing."""
        return next((self._lines[parent] for parent in _with_parents(path) if parent in self._lines), 1)

    def has(self, *paths: Path) -> bool:
        """Whether there is a problem at one of these paths, below it, or in one of its parents."""
        return any(path in self._paths_and_parents or not self._paths.isdisjoint(_with_parents(path)) for path in paths)

    def paths(self) -> frozenset[Path]:
        """Where there is a problem so far."""
        return frozenset(self._paths)

    def sorted(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._found.values(), key=lambda problem: problem.line or 0))
