"""The options of `csv` that suit a group of files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.config.format_options import CsvOptions
from blizzard.infer.own_names import free_name
from spark_job.infer.csv_dialect import Dialect, Forms, forms_of
from spark_job.infer.csv_sample import csv_parts
from spark_job.infer.heads import Head
from spark_job.infer.null_words import names_shown

_BY_MARK = ("utf-8", "utf-16", "utf-32")


@dataclass(frozen=True, slots=True)
class FoundOptions:
    """`options`: those that are not the default. `notes`: what is not certain about them. `why`: what the files show
    for each. `alike`: the files that are divided so."""

    options: Mapping[str, Any]
    notes: tuple[str, ...]
    why: Mapping[str, str]
    alike: tuple[Head, ...]


def options_of(heads: Sequence[Head], dialects: Sequence[Dialect], encodings: Sequence[str]) -> FoundOptions:
    """One for each head."""
    usual = Counter(_key(dialect) for dialect in dialects).most_common(1)[0][0]
    dialect = next(one for one in dialects if _key(one) == usual)
    keyed, notes = [*zip(heads, map(_key, dialects), strict=True)], list[str]()
    alike = tuple(head for head, key in keyed if key == usual)
    if others := [head.info.key for head, key in keyed if key != usual]:
        what = f"{len(others)} of {len(heads)} files that were looked at are divided in another way"
        notes.append(f"{what}, such as {others[0]}; the columns are those of the rest")
    encoding = _encoding(encodings)
    options: dict[str, Any] = {
        "delimiter": dialect.delimiter,
        "quote": dialect.quote,
        "escape": dialect.escape,
        "comment": dialect.comment,
        "header": dialect.names is not None,
        "skip_rows": dialect.skip_rows,
        "encoding": encoding,
    }
    if encoding not in _BY_MARK:
        notes.append(f"the bytes are not UTF-8; {encoding} is a guess")
    own = _own_names(dialects, dialect, notes)
    options |= own
    full = CsvOptions(**options).model_dump(mode="json")
    forms = forms_of(_values(alike, full), dialect.delimiter)
    options |= {
        "decimal_point": forms.text.decimal_point,
        "date_format": forms.text.date_format,
        "timestamp_format": forms.text.timestamp_format,
        "null_values": ["", *forms.nulls.words],
    }
    notes += forms.nulls.notes
    if forms.unclear:
        notes.append(f"dates in {', '.join(forms.unclear)} may be day or month first, so they stay STRING")
    default = CsvOptions().model_dump(mode="json")
    found = CsvOptions(**options).model_dump(mode="json")
    odd = {name: value for name, value in found.items() if value != default[name]}
    why = _reasons(dialects, dialect, encoding, forms, own_names="header" in own)
    return FoundOptions(odd, tuple(notes), {name: why[name] for name in odd}, alike)


def _values(heads: Sequence[Head], options: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """By column, those that are not empty."""
    parts = [*csv_parts(heads, options)]
    names = dict.fromkeys(name for part in parts for name in part.columns)
    return {name: [value for part in parts for value in part.columns.get(name, ()) if value] for name in names}


def _reasons(
    dialects: Sequence[Dialect], dialect: Dialect, encoding: str, forms: Forms, *, own_names: bool
) -> Mapping[str, str]:
    """By option, what speaks for a value other than the default."""
    alike = [one for one in dialects if _key(one) == _key(dialect)]
    share = sum(one.score for one in alike) / len(alike)
    return {
        "delimiter": f"divides {share:.0%} of the lines alike, in {len(alike)} of {len(dialects)} files",
        "header": "in place of the names in the files" if own_names else "the first line has values, and no names",
        "skip_rows": _skipped(dialect.skip_rows, own_names=own_names),
        "comment": "some lines begin with it",
        "escape": "some quotes follow it",
        "encoding": "by the first bytes" if encoding in _BY_MARK else "a guess: the bytes are not UTF-8",
        "decimal_point": f"{forms.commas:,} different numbers have a comma, and {forms.points:,} a point",
        "date_format": f"fits all values of {names_shown(forms.day_columns)}",
        "timestamp_format": f"fits all values of {names_shown(forms.time_columns)}",
        "null_values": "they stand beside values that are no texts",
    }


def _skipped(lines: int, *, own_names: bool) -> str:
    if not own_names:
        return "lines that are divided in another way"
    return f"the names in the files, and {lines} lines before them" if lines else "the names in the files"


def _key(dialect: Dialect) -> tuple[Any, ...]:
    return dialect.delimiter, dialect.names is not None, dialect.skip_rows


def _encoding(encodings: Sequence[str]) -> str:
    """ASCII is UTF-8, and any other encoding of single bytes, too."""
    others = [name for name in encodings if name != "utf-8"]
    return Counter(others).most_common(1)[0][0] if others else "utf-8"


def _own_names(dialects: Sequence[Dialect], dialect: Dialect, notes: list[str]) -> Mapping[str, Any]:
    """Names for a header that has one twice."""
    names = dialect.names or ()
    twice = next((name for at, name in enumerate(names) if name and name.lower() in map(str.lower, names[:at])), None)
    if twice is None:
        return {}
    if any(one.names != names for one in dialects):
        notes.append(
            f"a header has the name {twice!r} twice; other files have another header, so columns are found by name"
        )
        return {}
    notes.append(
        f"the names are given here, by position, because a table cannot have the name {twice!r} twice; "
        "if the order of the columns changes, change it here"
    )
    return {"header": _all_free(names), "skip_rows": dialect.skip_rows + 1}


def _all_free(names: Sequence[str]) -> list[str]:
    taken: set[str] = set()
    found = list[str]()
    for at, name in enumerate(names):
        found.append(free_name(name, f"c{at + 1}", taken))
        taken.add(found[-1].lower())
    return found
