"""Glob patterns over paths. Matching takes linear time for every pattern.

`**` as a whole folder matches any number of folders; `*` any characters and `?` one character, except `/`; `[a-z]` and
`[!a-z]` one character of a set; `{a,b}` either of them. Names that begin with `.` or `_` are not special.

Matching never backtracks: the part between two `*` of a folder name has a fixed length, so its leftmost match is always
sufficient. The same holds for the folders between two `**`.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

MAX_CHARACTERS = 1024
MAX_ALTERNATIVES = 100
"""How many patterns the braces of one pattern may expand to."""

FolderSequence = tuple[re.Pattern[str], ...]
"""Consecutive folders without `**` between them, one expression each."""


class Pattern:
    """A compiled glob. Raises ValueError, with the reason, if it is invalid."""

    def __init__(self, glob: str) -> None:
        if not 0 < len(glob) <= MAX_CHARACTERS:
            raise ValueError(f"found {len(glob)} characters; expected 1 to {MAX_CHARACTERS}; write ** for every file")
        self._glob = glob
        self._globs = tuple(_runs(alternative) for alternative in _alternatives(glob))

    def matches(self, path: str) -> bool:
        """Whether the whole path matches. A folder marker (a path that ends in `/`) never matches."""
        if not path or path.endswith("/"):
            return False
        parts = path.split("/")
        return any(_matches(runs, parts) for runs in self._globs)

    def bytes_expression(self) -> str:
        """A regular expression, as RE2 takes it for bytes, that the UTF-8 of each path has which the pattern matches.
        Other paths may have it, too."""
        return "|".join(map(_bytes_regex, _alternatives(self._glob)))


def literal(path: str) -> str:
    """The pattern that matches this path only."""
    return "".join(f"[{char}]" if char in "*?[{}\\" else char for char in path)


def _matches(runs: tuple[FolderSequence, ...], parts: list[str]) -> bool:
    """Whether the path is these runs, with any number of folders between them."""
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return len(first) == len(parts) and _matches_at(first, parts, 0)
    end = len(parts) - len(last)
    if end < len(first) or not _matches_at(first, parts, 0) or not _matches_at(last, parts, end):
        return False
    position = len(first)
    for run in runs[1:-1]:
        places = range(position, end - len(run) + 1)
        found = next((place for place in places if _matches_at(run, parts, place)), None)
        if found is None:
            return False
        position = found + len(run)
    return True


def _matches_at(run: FolderSequence, parts: list[str], place: int) -> bool:
    return all(regex.fullmatch(parts[place + i]) for i, regex in enumerate(run))


def _alternatives(glob: str) -> list[str]:
    """Every pattern that the braces expand to."""
    done: list[str] = []
    pending = [glob]
    while pending:
        before, choices, after = _first_braces(pending.pop())
        if choices is None:
            done.append(before)
        else:
            pending.extend(before + choice + after for choice in choices)
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise ValueError(f"its braces expand to more than {MAX_ALTERNATIVES} patterns; use fewer, or * instead")
    return done


def _first_braces(glob: str) -> tuple[str, list[str] | None, str]:
    start, cuts, depth = -1, [], 0
    for i, char in _characters_outside_sets(glob):
        if char == "{":
            start = i if depth == 0 else start
            depth += 1
        elif char == "," and depth == 1:
            cuts.append(i)
        elif char == "}":
            depth -= 1
            if depth == 0:
                edges = [start, *cuts, i]
                choices = [glob[a + 1 : b] for a, b in pairwise(edges)]
                return glob[:start], choices, glob[i + 1 :]
        if depth < 0:
            break
    if depth:
        raise ValueError("`{` and `}` do not pair up; close them, or write [{] and [}] for the characters")
    return glob, None, ""


def _characters_outside_sets(glob: str) -> Iterator[tuple[int, str]]:
    i = 0
    while i < len(glob):
        yield i, glob[i]
        i = _set_end(glob, i) if glob[i] == "[" else i + 1


def _set_end(glob: str, start: int) -> int:
    """Index after the `]` of the set that begins at `start`."""
    first = start + 2 if glob[start + 1 : start + 2] in ("!", "^") else start + 1
    end = glob.find("]", first + 1)
    if end < 0 or "/" in glob[start:end]:
        raise ValueError("`[` is not closed within its folder; close it with `]`, or write [[] for the character")
    return end + 1


def _runs(glob: str) -> tuple[FolderSequence, ...]:
    folders = glob.split("/")
    if "" in folders or "." in folders or ".." in folders:
        raise ValueError(
            "expected a pattern relative to the source's uri, such as **/*.json; "
            "remove a leading or trailing `/`, empty folders, `.` and `..`"
        )
    if folders[-1] == "**":
        folders.append("*")
    runs: list[list[re.Pattern[str]]] = [[]]
    for folder in folders:
        if folder == "**":
            runs.append([])
        else:
            runs[-1].append(re.compile(_folder_regex(folder), re.DOTALL))
    return tuple(map(tuple, runs))


def _folder_regex(folder: str) -> str:
    if "**" in folder:
        raise ValueError(f"found {folder!r}; expected ** to be a whole folder: write **/* for files at any depth")
    pieces = [""]
    for i, char in _characters_outside_sets(folder):
        if char == "*":
            pieces.append("")
        else:
            pieces[-1] += _one_character(folder, i)
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + ".*" + last


def _one_character(folder: str, i: int) -> str:
    match folder[i]:
        case "?":
            return "."
        case "[":
            return _set_regex(folder[i + 1 : _set_end(folder, i) - 1])
        case "\\":
            raise ValueError("found a backslash, which is not an escape character here; write [*] for the character *")
        case char:
            return re.escape(char)


def _set_regex(body: str) -> str:
    negated = body[0] in "!^"
    members = ""
    for low, high in re.findall(r"(.)(?:-(.))?", body[negated:], re.DOTALL):
        if high and low > high:
            raise ValueError(f"the range {low}-{high} is empty; write {high}-{low}")
        members += f"{re.escape(low)}-{re.escape(high)}" if high else re.escape(low)
    return f"[{'^' * negated}{members}]"


def bytes_expression_of(path: str) -> str:
    """Of this path only."""
    return "".join(f"\\x{byte:02x}" for byte in path.encode("utf-8", "surrogatepass"))


def _bytes_regex(glob: str) -> str:
    *folders, name = glob.split("/")
    if name == "**":
        folders, name = [*folders, name], "*"
    begin = "".join("(?:[^/]*/)*" if folder == "**" else f"{_bytes_of(folder)}/" for folder in folders)
    return begin + _bytes_of(name)


def _bytes_of(folder: str) -> str:
    """Of a part of a pattern. A character is up to four bytes."""
    pieces = []
    for i, char in _characters_outside_sets(folder):
        match char:
            case "*":
                pieces.append("[^/]*")
            case "?" | "[":
                pieces.append("[^/]{1,4}")
            case _:
                pieces.append(bytes_expression_of(folder[i]))
    return "".join(pieces)
