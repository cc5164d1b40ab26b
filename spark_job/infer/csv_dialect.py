"""How the fields of CSV files are divided, whether there is a header, and in which forms values are written."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from blizzard.config.ddl import Type
from blizzard.infer.text import TextForms, text_type
from blizzard.infer.types import DATE, STRING, TIMESTAMP, VOID, merge_all
from spark_job.infer.null_words import NULL_WORDS, NullWords, null_words

LINES = 500
"""Of each file that decide on its dialect."""
MAX_TITLE_LINES = 10
DELIMITERS = ("\t", ";", "|", ",", " ")
"""The less likely one is part of a value, the earlier."""
_LEAST_SHARE, _LEAST_SHARE_OF_BLANKS, _LEAST_FIELDS_OF_BLANKS = 0.9, 0.99, 4
_NAME = re.compile(r"[^\W\d][\w .,:/()%#&€$+*-]{0,63}")
DATE_FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d-%b-%Y", "%d %b %Y")
TIME_FORMATS = (
    "%Y%m%d %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    *(
        f"{day} {time}"
        for day in ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y-%m-%d")
        for time in ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M:%S %p", "%I:%M %p")
    ),
)
_COMMA_NUMBER, _POINT_NUMBER = re.compile(r"-?[0-9]+,[0-9]+"), re.compile(r"-?[0-9]+\.[0-9]+")
_DISTINCT = 500


@dataclass(frozen=True, slots=True)
class Dialect:
    """`names`: those of the header; None without one. `score`: how many of its lines have the usual number of
    fields."""

    delimiter: str
    fields: int
    score: float
    names: tuple[str, ...] | None
    skip_rows: int = 0
    comment: str | None = None
    quote: str | None = '"'
    escape: str | None = None


def dialect_of(text: str, *, sure: bool = False) -> Dialect | None:
    """None if no delimiter divides the lines alike. `sure`: that it is CSV; then it may have one field a line."""
    lines = [line.removesuffix("\r") for line in text.split("\n", LINES)[:LINES]]
    comment = "#" if any(line.startswith("#") for line in lines) else None
    found = [one for mark in DELIMITERS if (one := _divided_by(mark, lines, comment, sure=sure)) is not None]
    if not found and sure and any(lines):
        rows = [[line] for line in lines if line]
        return Dialect(",", 1, 1.0, _header(rows), comment=comment)
    return max(found, key=_preference, default=None)


def _preference(found: Dialect) -> tuple[float, bool, int]:
    return round(found.score, 2), found.fields > 2, -DELIMITERS.index(found.delimiter)


def _divided_by(mark: str, lines: Sequence[str], comment: str | None, *, sure: bool) -> Dialect | None:
    quote, escape = '"', "\\" if any('\\"' in line for line in lines) else None
    numbered = [
        (at, line) for at, line in enumerate(lines) if line.strip(" ") and not (comment and line.startswith(comment))
    ]
    if not any(mark in line for _, line in numbered):
        return None
    rows = _rows([line for _, line in numbered], mark, quote, escape)
    usual, count = Counter(map(len, rows)).most_common(1)[0]
    if usual < 2:
        return None
    title = next(at for at, row in enumerate(rows) if len(row) == usual)
    if len(rows) != len(numbered):  # a field spans lines: then no line before the header is dropped
        title = 0
    skipped = numbered[title][0] if 0 < title <= MAX_TITLE_LINES else 0
    rows = rows[title:] if skipped else rows
    share = count / len(rows)
    names = _header(rows)
    if not sure and _may_be_prose(rows, names, mark):
        return None
    if share < (_LEAST_SHARE_OF_BLANKS if mark == " " else _LEAST_SHARE):
        return None
    return Dialect(mark, usual, share, names, skipped, comment, quote, escape)


def _may_be_prose(rows: Sequence[Sequence[str]], names: Sequence[str] | None, mark: str) -> bool:
    """Lines of text have commas and blanks, too: a table has several rows, and values other than text."""
    if mark == " " and (names is None or len(rows[0]) < _LEAST_FIELDS_OF_BLANKS):
        return True
    body = rows[1:] if names is not None else rows
    typed = any(value and text_type(value) != STRING for row in body[:20] for value in row)
    return len(body) < 2 or not typed


def _rows(lines: Sequence[str], mark: str, quote: str | None, escape: str | None) -> list[list[str]]:
    try:
        ended = (f"{line}\n" for line in lines)
        return [row for row in csv.reader(ended, delimiter=mark, quotechar=quote, escapechar=escape) if row] or [[]]
    except csv.Error:
        return [[]]


def _header(rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The names in the first row; None if it is one of values."""
    first, body = rows[0], rows[1:201]
    names = [name for name in first if name]
    if not names or any(text_type(name) != STRING for name in names):
        return None
    columns = [[row[at] for row in body if at < len(row) and row[at]] for at in range(len(first))]
    if any(
        name and merge_all(map(text_type, values)) not in (STRING, VOID)
        for name, values in zip(first, columns, strict=True)
    ):
        return tuple(first)
    if not any(columns) and len({*names}) < len(names):
        return None
    are_names = len({*names}) * 2 > len(names) and all(_NAME.fullmatch(name) for name in names)
    return (
        tuple(first)
        if are_names and not any(name in values for name, values in zip(first, columns, strict=True))
        else None
    )


@dataclass(frozen=True, slots=True)
class Forms:
    """How values are written in all files. `unclear`: columns whose dates can be read in two ways. `day_columns`,
    `time_columns`: those that are written in the format of dates, or of times. `commas`, `points`: how many different
    numbers have which mark."""

    text: TextForms
    nulls: NullWords
    unclear: tuple[str, ...]
    day_columns: tuple[str, ...] = ()
    time_columns: tuple[str, ...] = ()
    commas: int = 0
    points: int = 0


class _Format(NamedTuple):
    """`form`: the one in which most columns are written; None: ISO 8601. `columns`: those; `unclear`: columns that two
    of them fit, as a day and a month below 13 do."""

    form: str | None
    columns: tuple[str, ...]
    unclear: tuple[str, ...]


def forms_of(columns: Mapping[str, Iterable[str]], delimiter: str) -> Forms:
    """`columns`: the values that are not empty, by column."""
    every = {name: list(dict.fromkeys(values)) for name, values in columns.items()}
    distinct = {name: values[:_DISTINCT] for name, values in every.items()}
    cells = [value for values in distinct.values() for value in values]
    commas = sum(_COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum(_POINT_NUMBER.fullmatch(cell) is not None for cell in cells)
    point = "," if commas > points and delimiter != "," else "."
    bare = {name: [value for value in values if value not in NULL_WORDS] for name, values in distinct.items()}
    day, time = _format(bare, DATE_FORMATS, DATE), _format(bare, TIME_FORMATS, TIMESTAMP)
    forms = TextForms(point, day.form, time.form)
    unclear = (*day.unclear, *time.unclear)
    return Forms(forms, null_words(every, forms), unclear, day.columns, time.columns, commas, points)


def _format(columns: Mapping[str, Sequence[str]], formats: Sequence[str], iso: Type) -> _Format:
    """`iso`: the type of values in ISO 8601."""
    kinds = {name: merge_all(map(text_type, values)) for name, values in columns.items()}
    fitting = {
        name: [form for form in formats if _all_fit(values, form)]
        for name, values in columns.items()
        if values and kinds[name] == STRING
    }
    counts = Counter(forms[0] for forms in fitting.values() if len(forms) == 1)
    best, count = counts.most_common(1)[0] if counts else (None, 0)
    if count <= sum(kind == iso for kind in kinds.values()):
        best = None
    written = tuple(name for name, forms in fitting.items() if best in forms)
    unclear = tuple(name for name, forms in fitting.items() if len(forms) > 1 and best not in forms)
    return _Format(best, written, unclear)


def _all_fit(values: Sequence[str], form: str) -> bool:
    if not values:
        return False
    for value in values:
        try:
            datetime.strptime(value, form)  # noqa: DTZ007 - only whether it can be read
        except ValueError:
            return False
    return True
