"""What is wrong with a configuration, each with its file, line and field."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from blizzard.log import one_line

Path = tuple[str | int, ...]
"""The way to a value: keys, and indexes into lists."""

MAX_CHARACTERS = 1000
"""Of what is said about one problem; a name in the file may be longer."""
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
    """`pipelines.events.partition_by[0]`; a key with other characters in it is quoted."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += ("." if out else "") + (part if _PLAIN.fullmatch(part) else f"{part!r:.80}")
    return out


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Empty, or `did you mean …?; ` to put before what else there is to say."""
    close = get_close_matches(word, list(known), n=1)
    return f"did you mean `{close[0]}`? " if close else ""


def _prefixes(path: Path) -> list[Path]:
    """The place itself, then what it lies in, up to the whole file."""
    return [path[:n] for n in range(len(path), -1, -1)]


class Problems:
    """Collects problems and knows which parts of the configuration can no longer be relied upon."""

    def __init__(self, file: str, lines: Mapping[Path, int]) -> None:
        self._file = file
        self._lines = lines
        self._found: dict[tuple[Path, str], Problem] = {}
        self._spoiled: set[Path] = set()
        self._around: set[Path] = set()
        """The spoiled places and everything that they lie in."""

    def add(self, path: Path, text: str) -> None:
        self._spoiled.add(path)
        self._around.update(_prefixes(path))
        shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
        self._found[path, text] = Problem(self._file, self.line_of(path), path, shown)

    def line_of(self, path: Path) -> int:
        """The line of the value, or of the nearest thing around it when it is not there."""
        return next((self._lines[around] for around in _prefixes(path) if around in self._lines), 1)

    def spoiled(self, *paths: Path) -> bool:
        """Whether something is wrong at one of these places, in it or around it."""
        return any(path in self._around or not self._spoiled.isdisjoint(_prefixes(path)) for path in paths)

    def paths(self) -> frozenset[Path]:
        """Where something is wrong so far."""
        return frozenset(self._spoiled)

    def sorted(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._found.values(), key=lambda problem: problem.line or 0))
