"""Checks of `new_fields`, `misfits`, `keys` and `fields` of a source, whose schema has no problem, or is inferred."""

from collections.abc import Iterator, Mapping, Sequence

from blizzard.config import ddl
from blizzard.config.format_options import CsvOptions
from blizzard.config.formats import FORMATS
from blizzard.config.model import Source
from blizzard.config.problems import Path, Problems, did_you_mean
from blizzard.config.schema_rule_options import SchemaRuleOptions
from blizzard.config.schema_rules import RESCUED, key_path

Keys = tuple[str, ...]
NEEDS_RESCUE = (
    "found add with files of xml, which need `misfits: rescue` or `widen` with it: that an element is repeated, or has "
    "others inside, only later records show, and they would be dead letters"
)


def check_schema_rules(source: Source, path: Path, problems: Problems) -> None:
    """`path`: of the source."""
    without = [name for name in source.formats if not FORMATS[name].takes_schema_rules]
    if without:
        for option in SchemaRuleOptions.model_fields:
            if getattr(source, option) != SchemaRuleOptions.model_fields[option].default:
                problems.add((*path, option), f"is not possible with `format: {without[0]}`; remove it")
        return
    _check_limit(source, path, problems)
    _check_xml(source, (*path, "new_fields"), problems)
    if source.infers_schema:
        if not problems.has((*path, "fields")):
            _check_csv_keys(source, (*path, "fields"), problems)
        return
    found = ddl.parse(source.record_ddl).columns
    columns = {column.name: column.type for column in found}
    if source.schema_rules.rescues:
        for name in columns:
            if name.lower() == RESCUED:
                text = (
                    f"column `{name}` is where `rescue`, `add` and `widen` keep what no other column takes; rename it"
                )
                problems.add((*path, "schema"), text)
    if not problems.has((*path, "fields")):
        _check_fields(source, columns, (*path, "fields"), problems)
        _check_header(source, found, path, problems)


def _check_limit(source: Source, path: Path, problems: Problems) -> None:
    """Of another value than the default: the published form of a configuration has all defaults."""
    is_set = source.max_new_columns != SchemaRuleOptions.model_fields["max_new_columns"].default
    if is_set and not source.schema_rules.tells_field_kinds and not problems.has((*path, "new_fields")):
        text = (
            f"has no effect with `new_fields: {source.new_fields}`, only with add; remove it, or set `new_fields: add`"
        )
        problems.add((*path, "max_new_columns"), text)


def _check_xml(source: Source, path: Path, problems: Problems) -> None:
    rules = source.schema_rules
    if "xml" in source.formats and rules.tells_field_kinds and not rules.rescues_misfits:
        problems.add(path, NEEDS_RESCUE)


def _check_header(source: Source, columns: Sequence[ddl.Column], path: Path, problems: Problems) -> None:
    """Whether files whose columns have the names in `header` can be read at all."""
    names = source.csv_options.header if isinstance(source.csv_options, CsvOptions) else True
    if isinstance(names, bool) or problems.has((*path, "fields")):
        return
    ignores_case = source.schema_rules.ignores_case
    given = {name.lower() if ignores_case else name for name in names}
    read = {name: key_path(text)[0] for name, text in source.fields.items()}
    keys = [(read.get(one.name, one.name), one.nullable) for one in columns]
    missing = [(key, nullable) for key, nullable in keys if (key.lower() if ignores_case else key) not in given]
    required = next((key for key, nullable in missing if not nullable), None)
    if len(missing) == len(keys):
        expected = ", ".join(key for key, _ in keys)
        problems.add((*path, "csv", "header"), f"found {names!r:.200}, expected some of {expected:.200}; correct it")
    elif required is not None:
        why = f"found no {required!r:.80}, which `schema` has as NOT NULL; correct one of them"
        problems.add((*path, "csv", "header"), why)


def _check_fields(source: Source, columns: Mapping[str, ddl.Type], path: Path, problems: Problems) -> None:
    for column, text in source.fields.items():
        if column not in columns:
            expected = f"expected one of {', '.join(columns)}"
            found = f"found {column!r}, which `schema` does not have; {did_you_mean(column, columns)}{expected}"
            problems.add((*path, column), found)
        elif (why := _why_not_csv(source, text)) is not None:
            problems.add((*path, column), why)
    if problems.has(path):
        return
    keys = {name: key_path(source.fields[name]) if name in source.fields else (name,) for name in columns}
    for column, text in _conflicts(columns, keys, ignore_case=source.schema_rules.ignores_case):
        problems.add((*path, column) if column in source.fields else path, text)


def _check_csv_keys(source: Source, path: Path, problems: Problems) -> None:
    for column, text in source.fields.items():
        if (why := _why_not_csv(source, text)) is not None:
            problems.add((*path, column), why)


def _why_not_csv(source: Source, text: str) -> str | None:
    """Why a file of CSV cannot have this key; None if it can, or if there is no such file."""
    if "csv" not in source.formats:
        return None
    if len(key_path(text)) > 1:
        return (
            f"found {text!r:.80}, but a field of CSV has no fields of its own; a name with dots is written as `{text}`"
        )
    blocks = [source.csv_options, *(rule.csv_options for rule in source.mixed_options or ())]
    if any(isinstance(block, CsvOptions) and block.header is False for block in blocks):
        return "has no effect with `header: false`, where columns are found by position; give their names in `header`"
    return None


def _conflicts(
    columns: Mapping[str, ddl.Type], keys: Mapping[str, Keys], *, ignore_case: bool
) -> Iterator[tuple[str, str]]:
    """Pairs of columns whose keys cannot be read both, each by one of its columns."""
    names = sorted(columns, key=lambda name: len(keys[name]))
    for at, name in enumerate(names):
        for other in names[:at]:
            if (why := _conflict(name, other, columns, keys, ignore_case=ignore_case)) is not None:
                yield name, why


def _conflict(
    name: str, other: str, columns: Mapping[str, ddl.Type], keys: Mapping[str, Keys], *, ignore_case: bool
) -> str | None:
    """`other`: whose path is not the longer one."""
    key, other_key = keys[name], keys[other]
    shared = _shared(key, other_key)
    if ignore_case and shared < len(other_key) and key[shared].lower() == other_key[shared].lower():
        both = f"{key[shared]!r} and {other_key[shared]!r}"
        return f"column {name} and column {other} have keys that differ in case only, {both}; use `keys: exact`"
    if shared < len(other_key):
        return None
    found: ddl.Type | None = columns[other]
    for inner in key[shared:]:
        if not isinstance(found, ddl.Struct):
            whole = ".".join(other_key)
            return f"column {name} is inside the key {whole!r}, which column {other} reads as {found}; leave one out"
        found = next((one.type for one in found.columns if one.name == inner), None)
        if found is None:
            return None
    if found != columns[name]:
        same = ".".join(key)
        reads = f"column {name} reads the key {same!r} as {columns[name]}, and column {other} reads it as {found}"
        return f"{reads}; give them one type"
    return None


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many keys the paths have in common."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
