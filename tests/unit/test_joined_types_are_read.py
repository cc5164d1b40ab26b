"""Files of one column in two types: the type that inference joins for it is one that the reader of each file takes."""

import io
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from blizzard.config.ddl import Column, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.storable import storable
from blizzard.infer.types import merge
from spark_job.formats.kinds import kind_of_column
from spark_job.formats.odd_columns import check_type
from spark_job.formats.typed_values import fit, plain_type
from spark_job.infer.arrow_types import type_of_arrow
from spark_job.infer.typed_sample import avro_struct
from spark_job.table.schema import columns_of
from tests.unit.format_reading import read_file
from tests.unit.odd_files import avro
from tests.unit.table_files import orc_file, parquet

MOMENT = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
VALUES: dict[pa.DataType, Any] = {
    pa.null(): None,
    pa.bool_(): True,
    pa.int8(): 1,
    pa.int16(): 1,
    pa.int32(): 1,
    pa.int64(): 1,
    pa.uint8(): 1,
    pa.uint16(): 1,
    pa.uint32(): 1,
    pa.uint64(): 1,
    pa.float16(): 1.5,
    pa.float32(): 1.5,
    pa.float64(): 1.5,
    pa.decimal128(5, 2): Decimal("1.25"),
    pa.decimal128(10, 2): Decimal("1.25"),
    pa.decimal128(38, 0): Decimal(1),
    pa.decimal128(38, 20): Decimal("1.25"),
    pa.decimal256(60, 2): Decimal("1.25"),
    pa.string(): "x",
    pa.large_string(): "x",
    pa.binary(): b"x",
    pa.binary(1): b"x",
    pa.date32(): date(2026, 11, 21),
    pa.date64(): date(2026, 11, 21),
    pa.time32("ms"): time(10),
    pa.time64("us"): time(10),
    pa.duration("us"): 5,
    **{pa.timestamp(unit, zone): MOMENT for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")},
    pa.dictionary(pa.int32(), pa.string()): "x",
    pa.list_(pa.int64()): [1],
    pa.list_(pa.string()): ["x"],
    pa.map_(pa.string(), pa.int64()): [("k", 1)],
    pa.map_(pa.date32(), pa.string()): [(date(2026, 11, 21), "x")],
    pa.struct([("a", pa.int64())]): {"a": 1},
    pa.struct([("a", pa.date32()), ("b", pa.bool_())]): {"a": date(2026, 11, 21), "b": True},
}
"""Of each type a value."""
PAIRS = [*itertools.combinations(VALUES, 2)]


def column_ddl(kind: Type) -> str:
    """As the table has it."""
    [column] = storable(Struct((Column("v", kind),))).schema.columns
    return f"v {type_ddl(column.type, with_not_null=False)}"


def inferred_kind(found: pa.DataType) -> Type | None:
    return type_of_arrow(found)


def added_kind(found: pa.DataType) -> Type | None:
    return kind_of_column(plain_type(found))


def assert_reads(array: pa.Array, ddl: str) -> None:
    (field,) = columns_of(ddl)
    check_type(plain_type(array.type), field, takes_out=False)
    made = fit(array, field.dataType)
    assert (made.doubtful, made.values.null_count) == (frozenset(), array.null_count), (str(array.type), ddl)


@pytest.mark.parametrize("kind_of", [inferred_kind, added_kind])
def test_the_joined_type_of_each_pair_takes_both(kind_of: Callable[[pa.DataType], Type | None]) -> None:
    joined = 0
    for one, other in PAIRS:
        kinds = kind_of(one), kind_of(other)
        if None in kinds:
            continue
        joined += 1
        ddl = column_ddl(merge(*kinds))  # type: ignore[arg-type]
        for kind in (one, other):
            assert_reads(pa.array([VALUES[kind], None], kind), ddl)
    assert joined > 700


arrow_types = st.recursive(
    st.sampled_from([kind for kind in VALUES if not pa.types.is_nested(kind) and type_of_arrow(kind) is not None]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(st.just(pa.string()), inner).map(lambda pair: pa.map_(*pair)),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda fields: pa.struct([*fields.items()])),
    ),
    max_leaves=5,
)


def value_of(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [value_of(kind.value_type)]
    if pa.types.is_map(kind):
        return [("k", value_of(kind.item_type))]
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type) for field in kind}
    return VALUES[kind]


@given(arrow_types, arrow_types)
def test_the_joined_type_takes_both_at_any_depth(one: pa.DataType, other: pa.DataType) -> None:
    for kind_of in (inferred_kind, added_kind):
        ddl = column_ddl(merge(kind_of(one), kind_of(other)))  # type: ignore[arg-type]
        for kind in (one, other):
            assert_reads(pa.array([value_of(kind), None], kind), ddl)


def stored(write: Callable[[pa.Table], bytes]) -> Iterator[tuple[bytes, pa.DataType]]:
    """A file of each type that the format has."""
    for kind, value in VALUES.items():
        array = pa.array([value, None], kind)
        try:
            body = write(pa.table({"v": array}))
        except (pa.ArrowException, NotImplementedError):
            continue
        if write is parquet:
            yield body, pq.read_schema(io.BytesIO(body)).field("v").type
        else:
            yield body, orc.ORCFile(io.BytesIO(body)).schema.field("v").type


@pytest.mark.parametrize(("name", "write", "least"), [("parquet", parquet, 35), ("orc", orc_file, 20)])
def test_files_of_each_pair_of_types_are_read_by_the_joined_one(
    name: str, write: Callable[[pa.Table], bytes], least: int
) -> None:
    files = [(body, kind_of_column(plain_type(kind)), type_of_arrow(kind)) for body, kind in stored(write)]
    assert len(files) >= least
    wanted: dict[tuple[bytes, str], None] = {}
    for (one, *kinds), (other, *others) in itertools.combinations(files, 2):
        for kind, another in zip(kinds, others, strict=True):
            if kind is not None and another is not None:
                ddl = column_ddl(merge(kind, another))
                wanted |= {(one, ddl): None, (other, ddl): None}
    for body, ddl in wanted:
        found = read_file(name, ddl, body)
        assert ([*found.rows], found.reasons) == ([0, 1], {}), ddl


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


AVRO: list[tuple[Any, Any]] = [
    ("boolean", True),
    ("int", 1),
    ("long", 1),
    ("float", 1.5),
    ("double", 1.5),
    ("string", "x"),
    ("bytes", b"x"),
    (["null", "long"], 1),
    (["int", "long"], 1),
    ({"type": "fixed", "name": "f", "size": 1}, b"x"),
    ({"type": "enum", "name": "e", "symbols": ["A"]}, "A"),
    (logical("bytes", "decimal", precision=10, scale=2), Decimal("1.25")),
    (logical("int", "date"), date(2026, 11, 21)),
    (logical("long", "timestamp-millis"), MOMENT),
    (logical("long", "timestamp-micros"), MOMENT),
    (logical("long", "local-timestamp-micros"), MOMENT.replace(tzinfo=None)),
    (logical("int", "time-millis"), time(10)),
    (logical("string", "uuid"), "12345678-1234-5678-1234-567812345678"),
    ({"type": "array", "items": "long"}, [1]),
    ({"type": "map", "values": "string"}, {"k": "x"}),
    ({"type": "record", "name": "s", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}),
]


def test_avro_files_of_each_pair_of_types_are_read_by_the_joined_one() -> None:
    files = []
    for kind, value in AVRO:
        schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
        ([column], without) = (avro_struct(schema)[0].columns, avro_struct(schema)[1])
        assert not without
        files.append((avro({"v": kind}, [{"v": value}]), column.type))
    for (one, kind), (other, another) in itertools.combinations(files, 2):
        ddl = column_ddl(merge(kind, another))
        for body in (one, other):
            found = read_file("avro", ddl, body)
            assert ([*found.rows], found.reasons) == ([0], {}), ddl


def test_a_union_of_avro_is_json_text_in_a_column_string() -> None:
    body = avro({"v": ["null", "int", "string"]}, [{"v": 5}, {"v": "x"}, {"v": None}])
    assert [row["v"] for row in read_file("avro", "v STRING", body).values] == ["5", '"x"', None]
