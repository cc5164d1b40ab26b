"""What the folders of a source say: columns in their names, and the time to which they belong."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote

from blizzard.paths.partition import HIVE_NULL, TimeTemplate, partition_of

MAX_LOOKBACK = 1 << 20
"""Two years of minutes; of days it reaches back to before all files."""
_TIME_NAMES = {"year", "yyyy", "y", "month", "mm", "m", "day", "dd", "d", "hour", "hh", "h", "minute", "min"}
_WHOLE = re.compile(r"-?[0-9]+")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LEVELS = (
    (re.compile(r"([^=%]*=)?([0-9]{4})-([0-9]{2})-([0-9]{2})-([0-9]{2})"), "%Y-%m-%d-%H"),
    (re.compile(r"([^=%]*=)?([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2})"), "%Y-%m-%dT%H"),
    (re.compile(r"([^=%]*=)?([0-9]{4})-([0-9]{2})-([0-9]{2})"), "%Y-%m-%d"),
    (re.compile(r"([^=%]*=)?([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})"), "%Y%m%d%H"),
    (re.compile(r"([^=%]*=)?([0-9]{4})([0-9]{2})([0-9]{2})"), "%Y%m%d"),
    (re.compile(r"([^=%]*=)?([0-9]{4})-([0-9]{2})"), "%Y-%m"),
    (re.compile(r"([^=%]*=)?((?:19|20)[0-9]{2})"), "%Y"),
)
_NEXT = {"%Y": "%m", "%m": "%d", "%d": "%H", "%H": "%M"}
_TWO = re.compile(r"([^=%]*=)?([0-9]{2})")


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """`types`: by name. `incomplete`: names that only some files have in their folders."""

    types: dict[str, str]
    incomplete: tuple[str, ...]


def partition_columns(paths: Sequence[str]) -> PartitionColumns:
    """Columns from folders such as `date=2024-01-28`. A column is one only if each file has it, once."""
    values: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for path in paths:
        for name, value in dict.fromkeys(_named(path)):
            values.setdefault(name, set()).add(value)
            counts[name] = counts.get(name, 0) + 1
    whole = {name for name, count in counts.items() if count == len(paths)}
    types = {name: partition_type(name, values[name]) for name in values if name in whole}
    return PartitionColumns(types, tuple(name for name in values if name not in whole))


def _named(path: str) -> Iterable[tuple[str, str]]:
    for folder in partition_of(path).split("/"):
        name, equals, value = folder.partition("=")
        if equals and name:
            yield unquote(name), value


def partition_type(name: str, values: Iterable[str]) -> str:
    """`string`, unless all are dates or whole numbers. A leading zero is kept except in a month, a day or an hour."""
    known = [unquote(value) for value in values if value != HIVE_NULL]
    if known and all(map(_is_date, known)):
        return "date"
    form = _WHOLE if name.lower() in _TIME_NAMES else _PLAIN
    if not known or not all(form.fullmatch(value) for value in known):
        return "string"
    size = max(abs(int(value)) for value in known)
    return "int" if size < 1 << 31 else "bigint" if size < 1 << 63 else "string"


def _is_date(text: str) -> bool:
    if _ISO.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def time_template(paths: Sequence[str]) -> str | None:
    """The leading folders as a strftime template, if those of all files are dated in the same way."""
    folders = {partition_of(path) for path in paths}
    if not folders:
        return None
    template = _template_of(min(folders).split("/"))
    if template is None:
        return None
    try:
        dated = TimeTemplate(template)
    except ValueError:
        return None
    return template if all(dated.folder_of(folder) is not None for folder in folders) else None


def lookback(template: str, paths: Iterable[str], now_ts: float) -> int:
    """How many of the latest folders reach back to the oldest of these files."""
    dated = TimeTemplate(template)
    oldest = min(folder for path in paths if (folder := dated.folder_of(partition_of(path))) is not None)
    return bisect_left(range(1, MAX_LOOKBACK), True, key=lambda steps: dated.oldest_folder(now_ts, steps) <= oldest) + 1


def _names_time(prefix: str | None) -> bool:
    return prefix is None or prefix.rstrip("=").lower() in _TIME_NAMES


def _template_of(parts: Sequence[str]) -> str | None:
    """From the folders of one file. Folders before the dated ones must be the same for all files."""
    for at, part in enumerate(parts):
        first = next(((found, form) for regex, form in _LEVELS if (found := regex.fullmatch(part))), None)
        if first is None:
            continue
        found, form = first
        levels, unit = [*(part.replace("%", "%%") for part in parts[:at]), (found[1] or "") + form], form[-2:]
        for following in parts[at + 1 :]:
            match = _TWO.fullmatch(following)
            if match is None or unit not in _NEXT or not _names_time(match[1]):
                break
            unit = _NEXT[unit]
            levels.append((match[1] or "") + unit)
        return "/".join(levels)
    return None
