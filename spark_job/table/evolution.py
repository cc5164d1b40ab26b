"""What a batch may change in the schema of its table: which of the fields that no column is for become columns, and
which columns are widened for values that do not fit."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from blizzard.config.ddl import DdlError, parse
from blizzard.config.field_places import in_place, names_in
from blizzard.errors import PermanentError
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.types import merge
from blizzard.state.schema_changes import FieldChange, SchemaChange
from spark_job.formats.nullable_type import nullable_type
from spark_job.ports.table import FieldWish, SchemaProposal
from spark_job.table.dependents import Dependent
from spark_job.table.effective_schema import EvolutionRules, field_paths
from spark_job.table.schema import type_of
from spark_job.table.sql import type_text
from spark_job.table.widening import widened

MAX_TABLE_COLUMNS = 2_000
"""Of a table that gets further ones, counted with the fields of its columns."""
MAX_NAME_CHARS = 128
SAFE_NAME = re.compile(r"[^\W\d][\w$@-]*")
RESERVED = frozenset({"_source", "_rescued", "_metadata", "_change_type", "_commit_version", "_commit_timestamp"})
"""Names that Blizzard, Spark and Delta give to columns of their own, in lower case."""
_ELEMENTS, _VALUES = "[]", "{}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field is: names of struct fields, and marks of elements and values, down to its own name."""

    parts: tuple[str, ...]
    siblings: frozenset[str]
    """The other fields of its struct, in lower case."""
    found: DataType | None
    """Its type, if the struct has it."""


@dataclass(slots=True)
class _Draft:
    """A proposal in the making. `schema`: of the table, as changed so far."""

    schema: StructType
    rules: EvolutionRules
    partition_by: Sequence[str]
    dependents: Sequence[Dependent]
    changes: list[FieldChange] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, wish: FieldWish) -> None:
        place, wanted = find(self.schema, wish.path), _type_of(wish)
        data_type = None if wanted is None else safe_type(wanted)
        reason = self._why_not_add(place, wanted) or self._why_not_type(data_type)
        if reason is not None or data_type is None:
            self.refused[wish.path] = reason or "no field of it has a name that is safe"
            return
        self._change(place, wish, data_type, None)

    def _why_not_add(self, place: _Place, wanted: DataType | None) -> str | None:
        name = place.parts[-1]
        if place.found is not None:
            return "the table has this column, but does not take it from records"
        if name.lower() in place.siblings:
            return "its name differs from that of another column in upper and lower case only"
        if wanted is None:
            return "no type could be inferred"
        return why_unsafe(name)

    def _why_not_type(self, data_type: DataType | None) -> str | None:
        if data_type is None:
            return None
        size = len([*field_paths(StructType([StructField("c", data_type)]))])
        have = [*field_paths(StructType([one for one in self.schema.fields if one.name.lower() not in RESERVED]))]
        new = sum(path not in self.rules.configured for path in have)
        if new + size > self.rules.max_new_columns:
            return f"the table has {new} columns that no source configures, of at most {self.rules.max_new_columns}"
        if len(have) + size > MAX_TABLE_COLUMNS:
            return f"the table has {len(have)} columns and fields, of at most {MAX_TABLE_COLUMNS}"
        return None

    def widen(self, wish: FieldWish) -> None:
        place, needed = find(self.schema, wish.path), _type_of(wish)
        if place.found is None or needed is None:
            return  # it has gone from the table, or nobody knows what it needs: the value is rescued
        wide = widened(place.found, needed)
        dependent = next((one.label for one in self.dependents if one.names(place.parts[:1])), None)
        if place.parts[0] in self.partition_by:
            self.refused[wish.path] = "the table is partitioned by it"
        elif wide is None:
            self.refused[wish.path] = f"Delta does not widen {type_text(place.found)} for {type_text(needed)}"
        elif dependent is not None:
            self.refused[wish.path] = f"{dependent} names it, and depends on its type"
        else:
            self._change(place, wish, wide, place.found)

    def _change(self, place: _Place, wish: FieldWish, data_type: DataType, was: DataType | None) -> None:
        self.schema = put(self.schema, place.parts, data_type)
        before = None if was is None else type_text(was)
        self.changes.append(FieldChange(wish.path, type_text(data_type), before, wish.records, wish.file, wish.record))


def propose(
    schema: StructType,
    rules: EvolutionRules,
    *,
    partition_by: Sequence[str],
    unknown: Sequence[FieldWish],
    misfits: Sequence[FieldWish],
    dependents: Sequence[Dependent] = (),
) -> SchemaProposal:
    """`schema`: of the table, with all columns. `unknown`: fields that no column is for; `misfits`: columns with values
    that do not fit; `dependents`: of the table; a column that one of them names is not widened. The order decides what
    comes first where not all of them can be added."""
    derived = [Dependent(f"derived column {name} ({sql})", sql) for name, sql in rules.derive]
    draft = _Draft(schema, rules, partition_by, [*dependents, *derived])
    wanted = _in_one_spelling(unknown) if rules.ignore_case else unknown
    for wish in wanted if rules.add else ():
        draft.add(wish)
    for wish in misfits if rules.widen else ():
        draft.widen(wish)
    return SchemaProposal(SchemaChange(tuple(draft.changes)) if draft.changes else None, draft.refused)


def _in_one_spelling(wishes: Sequence[FieldWish]) -> Sequence[FieldWish]:
    """Those that differ in case only as the first of them, with a type for the values of all: read again, the keys of
    all of them fill its column."""
    found: dict[str, FieldWish] = {}
    for wish in wishes:
        first = found.setdefault(wish.path.lower(), wish)
        if first is not wish:
            kind = _joined(first.type, wish.type)
            found[wish.path.lower()] = first._replace(type=kind, records=first.records + wish.records)
    return [*found.values()]


def _joined(one: str | None, other: str | None) -> str | None:
    if one is None or other is None or one == other:
        return one or other
    try:
        [[first], [second]] = (parse(f"c {kind}").columns for kind in (one, other))
    except DdlError:
        return "STRING"
    return type_ddl(merge(first.type, second.type))


def changed(schema: StructType, change: SchemaChange) -> StructType:
    """The schema of the table with the change. Raises AlreadyChanged if it does not fit, since somebody else has
    changed the table meanwhile."""
    for one in change.fields:
        place = find(schema, one.path)
        was = None if place.found is None else type_text(place.found)
        if was != one.was or (was is None and place.parts[-1].lower() in place.siblings):
            raise AlreadyChanged(f"column {one.path}: expected {one.was or 'none'}, found {was or 'another spelling'}")
        schema = put(schema, place.parts, type_of(one.type))
    return schema


def _type_of(wish: FieldWish) -> DataType | None:
    """None: it is not known, or no column can have it."""
    with suppress(PermanentError):
        return None if wish.type is None else nullable_type(type_of(wish.type))
    return None


class AlreadyChanged(Exception):
    """The table is not any more as it was when the change was made up."""


# -- names


def why_unsafe(name: str) -> str | None:
    """Why a field of this name does not become a column by itself; None: it may."""
    if len(name) > MAX_NAME_CHARS:
        return f"its name is longer than {MAX_NAME_CHARS} characters"
    if name.lower() in RESERVED:
        return "its name is reserved"
    if not SAFE_NAME.fullmatch(name):
        return "its name has other characters than letters, digits, _, -, $ and @, or does not begin with a letter or _"
    return None


def safe_type(data_type: DataType) -> DataType | None:
    """The type, nullable, without the fields whose names are not safe or that differ in case only; None if nothing is
    left of it."""
    match data_type:
        case StructType():
            kept: dict[str, StructField] = {}
            for one in data_type.fields:
                safe = None if why_unsafe(one.name) else safe_type(one.dataType)
                if safe is not None:
                    kept.setdefault(one.name.lower(), StructField(one.name, safe))
            return StructType([*kept.values()]) if kept else None
        case ArrayType():
            element = safe_type(data_type.elementType)
            return None if element is None else ArrayType(element)
        case MapType():
            value = safe_type(data_type.valueType)
            return None if value is None else MapType(nullable_type(data_type.keyType), value)
    return data_type


# -- places


def find(schema: StructType, path: str) -> _Place:
    """Where a path leads: as far as the schema has columns of such names, the rest of it is the field's own name."""
    for name, one in sorted(((f.name, f) for f in schema.fields), key=lambda named: -len(named[0])):
        shown = in_place(name)
        if not path.startswith(shown):
            continue
        rest, inner, marks = path[len(shown) :], one.dataType, list[str]()
        while isinstance(inner, ArrayType | MapType):
            mark = _ELEMENTS if isinstance(inner, ArrayType) else _VALUES
            if not rest.startswith(mark):
                break
            rest, inner = rest[len(mark) :], _inside(inner)
            marks.append(mark)
        if not rest:
            return _Place((name, *marks), _lower(schema, name), inner)
        if isinstance(inner, StructType) and rest.startswith("."):
            below = find(inner, rest[1:])
            return _Place((name, *marks, *below.parts), below.siblings, below.found)
    names = names_in(path)
    own = names[0] if names and in_place(names[0]) == path else path
    return _Place((own,), _lower(schema, own), None)


def _lower(schema: StructType, name: str) -> frozenset[str]:
    return frozenset(other.lower() for other in schema.names if other != name)


def _inside(data_type: ArrayType | MapType) -> DataType:
    return data_type.elementType if isinstance(data_type, ArrayType) else data_type.valueType


def put(schema: StructType, parts: Sequence[str], data_type: DataType) -> StructType:
    """The schema with this type at this place; a new field comes last."""
    fields = {one.name: one for one in schema.fields}
    name, rest = parts[0], parts[1:]
    known = fields.get(name)
    if known is None:
        fields[name] = StructField(name, data_type)
    else:
        inner = _put_inside(known.dataType, rest, data_type)
        fields[name] = StructField(name, inner, known.nullable, known.metadata)
    return StructType([*fields.values()])


def _put_inside(found: DataType, parts: Sequence[str], data_type: DataType) -> DataType:
    match found:
        case StructType() if parts:
            return put(found, parts, data_type)
        case ArrayType() if parts:
            return ArrayType(_put_inside(found.elementType, parts[1:], data_type), found.containsNull)
        case MapType() if parts:
            return MapType(found.keyType, _put_inside(found.valueType, parts[1:], data_type), found.valueContainsNull)
    return data_type
