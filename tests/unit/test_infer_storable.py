"""From inferred types to columns that a table can have, and to DDL that reads back the same."""

from hypothesis import given
from hypothesis import strategies as st

from blizzard.config import ddl
from blizzard.config.ddl import Atomic, Column, Struct
from blizzard.config.schema_limits import NO_LIMITS, storage_problems
from blizzard.infer.ddl_text import ddl_of, quoted
from blizzard.infer.storable import LeftOut, storable
from blizzard.infer.types import merge_all
from blizzard.infer.values import type_of
from tests.unit.inferred import structs, types


def inferred(*records: object) -> Struct:
    found = merge_all(map(type_of, records))
    assert isinstance(found, Struct)
    return found


def test_a_field_without_a_value_becomes_text() -> None:
    found = storable(inferred({"a": None, "b": [], "c": {}, "d": [{}]}))
    assert ddl_of(found.schema.columns, with_not_null=False) == "a STRING, b ARRAY<STRING>, c STRING, d ARRAY<STRING>"
    assert found.left_out == ()


def test_names_that_no_table_can_have_are_left_out_with_the_reason() -> None:
    found = storable(inferred({"id": 1, "ID": 2, "a b": 3, "_source": 4, "items": [{"x,y": 5, "_source": 6, "": 7}]}))
    assert ddl_of(found.schema.columns, with_not_null=False) == "id BIGINT, items ARRAY<STRUCT<_source: BIGINT>>"
    assert found.left_out == (
        LeftOut("ID", "column `ID` differs from `id` only in case, and names are not case-sensitive; rename one"),
        LeftOut("a b", "column `a b` has ' ' in its name, which Delta cannot store without mapping"),
        LeftOut("_source", "column `_source` has a name that is reserved for Blizzard; rename it"),
        LeftOut("items[].x,y", "column `items[].x,y` has ',' in its name, which Delta cannot store without mapping"),
        LeftOut("items[].", "column `items[].` has no name; add one"),
    )


def test_a_struct_of_which_no_name_can_be_stored_is_text() -> None:
    assert ddl_of(storable(inferred({"a": {"x y": 1}})).schema.columns, with_not_null=False) == "a STRING"


def test_of_typed_files_what_has_a_struct_without_a_column_is_left_out() -> None:
    found = storable(inferred({"id": 1, "list": [{"c d": 1}], "in": {"x": {"y z": 1}, "n": 2}}), is_typed=True)
    assert ddl_of(found.schema.columns, with_not_null=False) == "id BIGINT, in STRUCT<n: BIGINT>"
    assert [one.path for one in found.left_out] == ["list[].c d", "list", "in.x.y z", "in.x"]
    assert found.left_out[1].why == "column `list` has a struct of which no field can be a column"


@given(structs(types))
def test_delta_can_store_what_is_storable(found: Struct) -> None:
    schema = storable(found).schema
    assert not schema.columns or storage_problems(schema, NO_LIMITS) == []


@given(structs(types))
def test_the_ddl_reads_back_the_same(found: Struct) -> None:
    schema = storable(found).schema
    if schema.columns:
        assert ddl.parse(ddl_of(schema.columns)) == schema


@given(st.text(min_size=1), st.text())
def test_any_name_and_comment_can_be_written(name: str, comment: str) -> None:
    column = Column(name, Atomic("string"), comment=comment)
    assert ddl.parse(ddl_of([column])).columns == (column,)


def test_only_odd_names_are_quoted() -> None:
    assert [quoted(name) for name in ("a", "_b1", "1a", "größe", "a`b")] == ["a", "_b1", "`1a`", "`größe`", "`a``b`"]
