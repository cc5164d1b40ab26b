"""Partitions: the folder of a file, the column values in the folder names, and the time of a dated folder.

Everything here depends on the path alone. A path is relative to its source, with `/` between its parts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal
from urllib.parse import unquote

from blizzard.errors import PermanentError

PartitionType = Literal["string", "date", "int", "bigint", "smallint", "tinyint"]
"""Types of partition columns: those whose values can be read from a folder name without ambiguity."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder value that Hive and Spark write for null."""


class BadPartition(PermanentError):
    """A file's folders do not give the partition columns that its source declares."""


def partition_of(path: str) -> str:
    """The path before its last `/`; empty at the root of the source."""
    return path.rpartition("/")[0]


# --- Values in folder names: `date=2024-01-28/hour=07` ---


def partition_values(path: str, columns: Mapping[str, str]) -> dict[str, str | None]:
    """Values by column, as text that casts to the column's type: `007` as int is `7`; None is null.

    `columns`: types by name. Raises BadPartition when a folder is missing, occurs twice, or has an invalid value.
    """
    folders = _folders(partition_of(path)) if columns else {}
    return {column: _value(path, column, kind, folders.get(column, [])) for column, kind in columns.items()}


def _folders(partition: str) -> dict[str, list[str]]:
    """Values as in the path, by decoded column name."""
    found: dict[str, list[str]] = {}
    for folder in partition.split("/"):
        name, equals, value = folder.partition("=")
        if equals:
            found.setdefault(unquote(name), []).append(value)
    return found


def _value(path: str, column: str, kind: str, found: list[str]) -> str | None:
    expected = f"one folder `{column}={_EXAMPLES[kind]}`"
    if len(set(found)) != 1:
        seen = " and ".join(f"`{column}={value}`" for value in found) or f"no `{column}=` folder"
        raise _bad_partition(path, column, expected, seen)
    if found[0] == HIVE_NULL:
        return None
    try:
        return _READERS[kind](unquote(found[0], errors="strict"))
    except ValueError:
        raise _bad_partition(
            path, column, f"a {kind}, such as `{column}={_EXAMPLES[kind]}`", f"`{column}={found[0]}`"
        ) from None


def _bad_partition(path: str, column: str, expected: str, found: str) -> BadPartition:
    return BadPartition(
        f"{path}: partition column `{column}`: expected {expected}, found {found}; "
        "move the file, or change the source's `partition_columns` or `pattern`"
    )


def _read_date(text: str) -> str:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()


def _whole_number(bits: int) -> Callable[[str], str]:
    limit = 1 << (bits - 1)

    def read(text: str) -> str:
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not -limit <= int(text) < limit:
            raise ValueError(text)
        return str(int(text))

    return read


_READERS: Mapping[str, Callable[[str], str]] = {
    "string": str,
    "date": _read_date,
    "int": _whole_number(32),
    "bigint": _whole_number(64),
    "smallint": _whole_number(16),
    "tinyint": _whole_number(8),
}
_EXAMPLES: Mapping[str, str] = {
    "string": "north",
    "date": "2024-01-28",
    "int": "17",
    "bigint": "17",
    "smallint": "17",
    "tinyint": "17",
}


# --- Folders of a time: `date=%Y-%m-%d` ---

MAX_TEMPLATE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class _Directive:
    level: int
    """Position in the order year, month, day, hour, minute."""
    digits: int
    value_of: Callable[[datetime], int]


_DIRECTIVES: Mapping[str, _Directive] = {
    "Y": _Directive(0, 4, lambda moment: moment.year),
    "m": _Directive(1, 2, lambda moment: moment.month),
    "d": _Directive(2, 2, lambda moment: moment.day),
    "j": _Directive(2, 3, lambda moment: moment.timetuple().tm_yday),
    "H": _Directive(3, 2, lambda moment: moment.hour),
    "M": _Directive(4, 2, lambda moment: moment.minute),
}
_KNOWN = "%Y %m %d %j %H %M"
_STEPS = {2: timedelta(days=1), 3: timedelta(hours=1), 4: timedelta(minutes=1)}


class TimeTemplate:
    """A strftime template of the leading folders, such as `date=%Y-%m-%d` or `year=%Y/month=%m/day=%d`; all in UTC.

    Raises ValueError unless the folders sort as their times do: the year first, then finer units without a gap.
    """

    def __init__(self, prefix_template: str) -> None:
        self._pieces = _pieces(prefix_template)
        self._finest = _finest_level(self._pieces)
        self._regex = re.compile(_regex_of(self._pieces) + r"(?=/|\Z)")

    def folder_of(self, partition: str) -> str | None:
        """The leading folders of the partition that match the template; None if they are not a valid time."""
        match = self._regex.match(partition)
        if match is None:
            return None
        moment = _moment({name: int(digits) for name, digits in match.groupdict().items()})
        return match.group() if moment is not None and self._folder(moment) == match.group() else None

    def oldest_folder(self, now_ts: float, lookback: int) -> str:
        """The folder of the oldest of the `lookback` latest partitions, the current one included."""
        if lookback < 1:
            raise ValueError(f"lookback is {lookback}, expected 1 or greater")
        return self._folder(_back(datetime.fromtimestamp(now_ts, UTC), self._finest, lookback - 1))

    def _folder(self, moment: datetime) -> str:
        return "".join(_format_piece(piece, moment) for piece in self._pieces)


Piece = str | _Directive
"""Literal text, or a unit of time."""


def _format_piece(piece: Piece, moment: datetime) -> str:
    return piece if isinstance(piece, str) else f"{piece.value_of(moment):0{piece.digits}d}"


def _pieces(template: str) -> tuple[Piece, ...]:
    text = template.removesuffix("/")
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise ValueError(f"found {len(text)} characters; expected at most {MAX_TEMPLATE_CHARACTERS}")
    if any(folder in ("", ".", "..") for folder in text.split("/")):
        raise ValueError(
            f"found {template!r}; expected folders relative to the source, such as date=%Y-%m-%d; "
            "remove a leading `/`, empty folders, `.` and `..`"
        )
    return tuple(_piece(part) for part in re.split(r"(%.?)", text, flags=re.DOTALL) if part)


def _piece(part: str) -> Piece:
    if not part.startswith("%"):
        return part
    if part == "%%":
        return "%"
    if part[1:] not in _DIRECTIVES:
        raise ValueError(
            f"found {part!r}; expected only {_KNOWN}, which are padded with zeros and sort as time does; "
            "write %% for a percent sign"
        )
    return _DIRECTIVES[part[1:]]


def _finest_level(pieces: tuple[Piece, ...]) -> int:
    finest = -1
    for unit in (piece for piece in pieces if isinstance(piece, _Directive)):
        follows = unit.level <= finest + 1 or (unit is _DIRECTIVES["j"] and finest == 0)
        if not follows:
            break
        finest = max(finest, unit.level)
    else:
        if finest >= 0:
            return finest
    raise ValueError(
        "such folders do not sort as their times do; expected %Y first, then %m, %d, %H, %M in this order, "
        "as far as they are needed (%j may stand for %m and %d)"
    )


def _regex_of(pieces: tuple[Piece, ...]) -> str:
    names = {id(directive): name for name, directive in _DIRECTIVES.items()}
    seen: set[str] = set()
    out = []
    for piece in pieces:
        if isinstance(piece, str):
            out.append(re.escape(piece))
            continue
        name = names[id(piece)]
        out.append(f"(?P={name})" if name in seen else f"(?P<{name}>[0-9]{{{piece.digits}}})")
        seen.add(name)
    return "".join(out)


def _moment(units: Mapping[str, int]) -> datetime | None:
    """None for a time that does not exist, such as February 30. Does not check that %m and %d agree with %j."""
    time = timedelta(hours=units.get("H", 0), minutes=units.get("M", 0))
    try:
        if "j" in units:
            return datetime(units["Y"], 1, 1, tzinfo=UTC) + timedelta(days=units["j"] - 1) + time
        return datetime(units["Y"], units.get("m", 1), units.get("d", 1), tzinfo=UTC) + time
    except (ValueError, OverflowError):
        return None


def _back(moment: datetime, level: int, steps: int) -> datetime:
    try:
        if level in _STEPS:
            return moment - _STEPS[level] * steps
        months = moment.year * 12 + moment.month - 1 - steps * (12 if level == 0 else 1)
        return moment.replace(year=months // 12, month=months % 12 + 1, day=1)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)
