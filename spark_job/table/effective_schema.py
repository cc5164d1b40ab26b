"""The columns of a source's records: those of its configuration, and what its table has beyond them.

The table is the truth: nothing else remembers which columns files have brought, or how wide they have become.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from blizzard.config.field_places import in_place
from blizzard.config.schema_rules import RESCUED
from blizzard.infer.ddl_text import ddl_of
from spark_job.table.file_layout import HARMLESS_METADATA
from spark_job.table.schema_ddl import column_of, schema_problems
from spark_job.table.widening import widens

MAPPING = "delta.columnMapping."
"""How the keys of a column's metadata begin that say what files call it."""


@dataclass(frozen=True, slots=True)
class EvolutionRules:
    """What files of a source may change in its table, and what those of others may have changed. The default:
    nothing."""

    add: bool = False
    """Columns, and fields of columns, that the configuration does not have."""
    widen: bool = False
    """Types of columns, as far as Delta widens them."""
    others_add: bool = False
    others_widen: bool = False
    """Of another source of the same table."""
    max_new_columns: int = 0
    """How many columns the table may have that no source has in its configuration. Fields of a column count, too."""
    configured: frozenset[str] = frozenset()
    """The columns and fields of all sources of the table, as `field_paths` names them."""
    ignore_case: bool = False
    """Keys that differ from a column in case only fill it."""
    derive: tuple[tuple[str, str], ...] = ()
    """Derived columns of all sources of the table, with their expressions."""
    formats: tuple[str, ...] = ()
    """Of the source's files."""


FIXED = EvolutionRules()


def effective_columns(
    configured: Sequence[StructField], table: StructType | None, rules: EvolutionRules, *, left_out: Collection[str]
) -> list[StructField]:
    """The columns of a record, the configured ones first, what is rescued of it last. `table`: all columns of the
    table; None: there is none yet. `left_out`: columns of the table that do not come from records, in lower case.

    Fields of structs have the order that they have in the table, which types are compared by. A column that the table
    computes or maps by itself is not among them, unless it is configured, nor is one that the format of the files
    cannot hold. A column that another source has changed has the type that it has now.
    """
    if table is None:
        return [*configured]
    found = {field.name: field for field in table.fields}
    columns = [_effective_field(field, found.get(field.name), rules) for field in configured]
    known = {field.name.lower() for field in configured} | {*left_out}
    if rules.add:
        further = [field for field in table.fields if field.name.lower() not in known and _is_plain(field)]
        columns += [field for field in further if not schema_problems(ddl_of([column_of(field)]), rules.formats)]
    return sorted(columns, key=lambda field: field.name == RESCUED)


def _effective_field(own: StructField, found: StructField | None, rules: EvolutionRules) -> StructField:
    if found is None:
        return own
    return StructField(own.name, _effective_type(own.dataType, found.dataType, rules), own.nullable, own.metadata)


def _effective_type(own: DataType, found: DataType, rules: EvolutionRules) -> DataType:
    match own, found:
        case StructType(), StructType():
            return _effective_struct(own, found, rules)
        case ArrayType(), ArrayType():
            return ArrayType(_effective_type(own.elementType, found.elementType, rules), own.containsNull)
        case MapType(), MapType():
            value = _effective_type(own.valueType, found.valueType, rules)
            return MapType(_effective_type(own.keyType, found.keyType, rules), value, own.valueContainsNull)
    return found if (rules.widen or rules.others_widen) and widens(own, found) else own


def _effective_struct(own: StructType, found: StructType, rules: EvolutionRules) -> StructType:
    """In the table's order; with its further fields, where files may have added some."""
    in_table = {field.name: field for field in found.fields}
    fields = {field.name: _effective_field(field, in_table.get(field.name), rules) for field in own.fields}
    lower = {name.lower() for name in fields}
    grows = rules.add or rules.others_add
    others = {name: field for name, field in in_table.items() if name.lower() not in lower and _is_plain(field)}
    further = others if grows else {}
    ordered = [fields.get(name) or further[name] for name in in_table if name in fields or name in further]
    return StructType([*ordered, *(field for name, field in fields.items() if name not in in_table)])


def _is_plain(field: StructField) -> bool:
    """Whether its values are what a record has. How its files call it does not matter: then Spark writes them."""
    keys = {key for key in field.metadata or () if not key.startswith(MAPPING)}
    return keys <= {*HARMLESS_METADATA}


def field_paths(data_type: DataType, path: str = "") -> Iterator[str]:
    """All fields that have no fields themselves, in lower case, those of elements and values too."""
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from field_paths(field.dataType, f"{path}.{in_place(field.name.lower())}")
        case ArrayType():
            yield from field_paths(data_type.elementType, f"{path}[]")
        case MapType():
            yield from field_paths(data_type.valueType, f"{path}{{}}")
        case _:
            yield path
