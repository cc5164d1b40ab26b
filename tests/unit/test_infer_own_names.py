"""Fields whose names a table cannot have get others, and keep their values."""

from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.ddl import Atomic, Column, Struct
from blizzard.config.schema_limits import NO_LIMITS, storage_problems
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.own_names import Named, free_name, named
from blizzard.infer.storable import LeftOut
from tests.unit.inferred import structs, types


def of_names(*names: str, may_rename: bool = True) -> Named:
    columns = tuple(Column(name, Atomic("bigint")) for name in names)
    return named(Struct(columns), is_typed=False, may_rename=may_rename)


def test_each_has_a_name_of_its_own_and_its_key() -> None:
    found = of_names("id", "Order ID", "(x)", "  ", "order_id", "a\tb", "_source", "_Blizzard_x")
    assert [column.name for column in found.columns.schema.columns] == [
        *("id", "Order_ID_2", "x", "field", "order_id", "a_b", "source", "Blizzard_x")
    ]
    assert found.keys == {
        "Order_ID_2": "Order ID",
        "x": "(x)",
        "field": "  ",
        "a_b": "a\tb",
        "source": "_source",
        "Blizzard_x": "_Blizzard_x",
    }
    assert found.columns.left_out == ()


def test_what_a_table_can_have_stays_as_it_is() -> None:
    found = of_names("größe", "x.y", "a`b", "1st")
    assert ([column.name for column in found.columns.schema.columns], found.keys) == (
        ["größe", "x.y", "a`b", "1st"],
        {},
    )


def test_where_a_source_cannot_have_other_keys_such_fields_are_left_out() -> None:
    found = of_names("id", "a b", may_rename=False)
    assert ([column.name for column in found.columns.schema.columns], found.keys) == (["id"], {})
    assert [one.path for one in found.columns.left_out] == ["a b"]


def test_a_field_of_a_struct_keeps_its_name_or_is_left_out() -> None:
    inner = Struct((Column("c d", Atomic("bigint")), Column("e", Atomic("bigint"))))
    found = named(Struct((Column("a b", inner),)), is_typed=True)
    assert ddl_of(found.columns.schema.columns) == "a_b STRUCT<e: BIGINT>"
    assert found.keys == {"a_b": "a b"}
    why = "column `a_b.c d` has ' ' in its name, which Delta cannot store without mapping"
    assert found.columns.left_out == (LeftOut("a_b.c d", why),)


def test_a_field_that_no_column_can_hold_has_no_key() -> None:
    nothing = Struct((Column("c d", Atomic("bigint")),))
    found = named(Struct((Column("a b", nothing), Column("id", Atomic("bigint")))), is_typed=True)
    assert ([column.name for column in found.columns.schema.columns], found.keys) == (["id"], {})


@given(structs(types))
def test_a_table_can_have_every_column(found: Struct) -> None:
    assert storage_problems(named(found, is_typed=False).columns.schema, NO_LIMITS) in ([], [NO_COLUMN])


NO_COLUMN = "column `` is a struct without columns, which Delta cannot store; add one, or remove the struct"


@given(st.lists(st.text(max_size=4), max_size=6))
def test_names_are_free_and_not_empty(names: list[str]) -> None:
    taken = set[str]()
    for name in names:
        found = free_name(name, "field", taken)
        assert found
        assert found.lower() not in taken
        taken.add(found.lower())
