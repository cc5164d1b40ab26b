"""Which changes of a table's schema files may bring, and what a source's records then have for columns."""

from dataclasses import replace

import pytest
from pyspark.sql.types import StructType

from spark_job.ports.table import FieldWish, SchemaProposal
from spark_job.table.dependents import Dependent
from spark_job.table.effective_schema import EvolutionRules, effective_columns, field_paths
from spark_job.table.evolution import MAX_NAME_CHARS, AlreadyChanged, changed, propose, why_unsafe
from spark_job.table.schema import columns_of, type_of
from spark_job.table.sql import type_text
from spark_job.table.widening import widened, widens

TABLE = "id STRING, n INT, address STRUCT<city: STRING>, items ARRAY<STRUCT<sku: STRING>>, by_day MAP<STRING, FLOAT>"
BOTH = EvolutionRules(add=True, widen=True, max_new_columns=10, configured=frozenset(field_paths(columns_of(TABLE))))


def proposed(
    *unknown: tuple[str, str | None],
    misfits: tuple[tuple[str, str], ...] = (),
    table: str = TABLE,
    rules: EvolutionRules = BOTH,
    partition_by: tuple[str, ...] = (),
    dependents: tuple[Dependent, ...] = (),
) -> SchemaProposal:
    wishes = [[FieldWish(path, kind, 1, "f", 0) for path, kind in some] for some in (unknown, misfits)]
    return propose(
        columns_of(table),
        rules,
        partition_by=partition_by,
        unknown=wishes[0],
        misfits=wishes[1],
        dependents=dependents,
    )


def schema_after(proposal: SchemaProposal, table: str = TABLE) -> str:
    assert proposal.change is not None
    return type_text(changed(columns_of(table), proposal.change))


# -- adding


@pytest.mark.parametrize(
    ("path", "kind", "after"),
    [
        ("x", "BIGINT", "struct<id:string,x:bigint>"),
        ("address.zip", "STRING", "struct<id:string,address:struct<city:string,zip:string>>"),
        ("items[].price", "DOUBLE", "struct<id:string,items:array<struct<sku:string,price:double>>>"),
        ("by_day{}.max", "INT", "struct<id:string,by_day:map<string,struct<min:int,max:int>>>"),
        ("grid[][].v", "INT", "struct<id:string,grid:array<array<struct<u:int,v:int>>>>"),
        ("user-agent", "STRING", "struct<id:string,`user-agent`:string>"),
        ("größe", "INT", "struct<id:string,`größe`:int>"),
        ("_id", "STRING", "struct<id:string,_id:string>"),
        ("n", "STRUCT<a: INT, b: ARRAY<STRUCT<c: DATE>>>", "struct<id:string,n:struct<a:int,b:array<struct<c:date>>>>"),
    ],
)
def test_a_field_becomes_a_column_where_it_was_found(path: str, kind: str, after: str) -> None:
    before = {
        "address.zip": ", address STRUCT<city: STRING>",
        "items[].price": ", items ARRAY<STRUCT<sku: STRING>>",
        "by_day{}.max": ", by_day MAP<STRING, STRUCT<min: INT>>",
        "grid[][].v": ", grid ARRAY<ARRAY<STRUCT<u: INT>>>",
    }
    table = "id STRING" + before.get(path, "")
    assert schema_after(proposed((path, kind), table=table), table) == after


def test_all_changes_of_a_batch_are_one() -> None:
    proposal = proposed(("x", "INT"), ("address.zip", "STRING"), misfits=(("n", "BIGINT"),))
    assert proposal.change is not None
    assert str(proposal.change) == "+ x int, + address.zip string, n: int -> bigint"
    assert proposal.refused == {}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a b", "other characters"),
        ("x.y", "other characters"),
        ("a`b", "other characters"),
        ("1st", "other characters"),
        ("", "other characters"),
        ("a;drop", "other characters"),
        ("a\u200bb", "other characters"),
        ("e\u0301", "other characters"),
        ("a\nb", "other characters"),
        ("_source", "reserved"),
        ("_Rescued", "reserved"),
        ("_change_type", "reserved"),
        ("x" * (MAX_NAME_CHARS + 1), "longer than"),
        ("ID", "upper and lower case only"),
        ("id", "does not take it from records"),
    ],
)
def test_a_name_that_is_not_safe_stays_as_it_is(name: str, why: str) -> None:
    proposal = proposed((name, "INT"))
    assert proposal.change is None
    assert why in proposal.refused[name]


@pytest.mark.parametrize("path", ["`address.zip`", "`items[].price`", "`by_day{}.max`", "`a``b`", "address.`x.y`"])
def test_a_name_that_looks_like_a_place_never_touches_a_struct(path: str) -> None:
    proposal = proposed((path, "INT"))
    assert proposal.change is None
    assert "other characters" in proposal.refused[path]


def test_a_field_of_a_struct_has_no_type_from_a_key_that_looks_like_it() -> None:
    proposal = proposed(("address.zip", "INT"), ("`address.zip`", "STRING"))
    assert str(proposal.change) == "+ address.zip int"
    assert [*proposal.refused] == ["`address.zip`"]


def test_columns_with_a_dot_are_found_by_their_quoted_names() -> None:
    table = "id STRING, x STRUCT<y: INT>, `x.y` INT, `a.b` STRUCT<c: INT>"
    assert schema_after(proposed(("`a.b`.d", "INT"), table=table), table).endswith("`a.b`:struct<c:int,d:int>>")
    widening = proposed(misfits=(("`x.y`", "BIGINT"),), table=table)
    assert schema_after(widening, table) == "struct<id:string,x:struct<y:int>,`x.y`:bigint,`a.b`:struct<c:int>>"
    assert "upper and lower case" in proposed(("`X.Y`", "INT"), table=table).refused["`X.Y`"]


def test_of_two_names_that_differ_in_case_only_the_first_is_added() -> None:
    proposal = proposed(("Foo", "INT"), ("foo", "INT"))
    assert [field.path for field in proposal.change.fields] == ["Foo"] if proposal.change else False
    assert "upper and lower case only" in proposal.refused["foo"]


def test_names_that_differ_in_case_only_become_one_column_if_case_is_ignored() -> None:
    rules = replace(BOTH, ignore_case=True)
    proposal = proposed(("Foo", "INT"), ("x", "INT"), ("foo", "DOUBLE"), ("FOO", None), ("X", None), rules=rules)
    assert str(proposal.change) == "+ Foo double, + x int"
    assert proposal.refused == {}
    [foo, _] = proposal.change.fields if proposal.change else ()
    assert foo.records == 3
    assert str(proposed(("a", "INT"), ("A", "STRUCT<b: INT>"), rules=rules).change) == "+ a string"
    assert "upper and lower case only" in proposed(("ID", "INT"), rules=rules).refused["ID"]


def test_of_a_new_struct_only_fields_with_safe_names_are_added() -> None:
    proposal = proposed(("s", "STRUCT<a: INT, `b c`: INT, A: INT, t: STRUCT<`x y`: INT>, l: ARRAY<STRUCT<`.`: INT>>>"))
    assert str(proposal.change) == "+ s struct<a:int>"
    assert "no field of it has a name that is safe" in proposed(("s", "STRUCT<`b c`: INT>")).refused["s"]


@pytest.mark.parametrize("kind", [None, "VOID", "ARRAY<VOID>", "nonsense"])
def test_a_field_without_a_type_is_not_added(kind: str | None) -> None:
    assert proposed(("x", kind)).refused == {"x": "no type could be inferred"}


def test_only_so_many_columns_are_added_counting_fields() -> None:
    rules = EvolutionRules(add=True, max_new_columns=3, configured=BOTH.configured)
    proposal = proposed(
        ("a", "INT"), ("s", "STRUCT<x: INT, y: ARRAY<STRUCT<z: INT, u: INT>>>"), ("b", "INT"), rules=rules
    )
    assert str(proposal.change) == "+ a int, + b int"
    assert "1 columns that no source configures, of at most 3" in proposal.refused["s"]
    again = proposed(("c", "INT"), ("d", "INT"), table=f"{TABLE}, a INT, b INT", rules=rules)
    assert str(again.change) == "+ c int"
    assert [*again.refused] == ["d"]


def test_a_table_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_job.table.evolution.MAX_TABLE_COLUMNS", 6)
    proposal = proposed(("a", "INT"), ("b", "INT"))
    assert str(proposal.change) == "+ a int"
    assert proposal.refused == {"b": "the table has 6 columns and fields, of at most 6"}


def test_a_change_that_the_table_has_already_does_not_fit() -> None:
    proposal = proposed(("x", "INT"), misfits=(("n", "BIGINT"),))
    assert proposal.change is not None
    for other in (f"{TABLE}, x STRING", f"{TABLE}, x INT", f"{TABLE}, X INT", TABLE.replace("n INT", "n BIGINT")):
        with pytest.raises(AlreadyChanged):
            changed(columns_of(other), proposal.change)


def test_nothing_is_proposed_that_the_source_does_not_allow() -> None:
    given = {"misfits": (("n", "BIGINT"),)}
    assert proposed(("x", "INT"), rules=EvolutionRules(), **given) == SchemaProposal()
    assert str(proposed(("x", "INT"), rules=EvolutionRules(widen=True), **given).change) == "n: int -> bigint"
    only_add = EvolutionRules(add=True, max_new_columns=1, configured=BOTH.configured)
    assert str(proposed(("x", "INT"), rules=only_add, **given).change) == "+ x int"


# -- widening

DIGITS = ("decimal(3,2)", "decimal(5,2)", "decimal(5,4)", "decimal(12,4)", "decimal(10,0)", "decimal(20,0)")
KINDS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp_ntz",
    "timestamp",
    *DIGITS,
    "string",
)
DELTA_WIDENS = {
    "tinyint": {"smallint", "int", "bigint", "double", "decimal(10,0)", "decimal(20,0)"},
    "smallint": {"int", "bigint", "double", "decimal(10,0)", "decimal(20,0)"},
    "int": {"bigint", "double", "decimal(10,0)", "decimal(20,0)"},
    "bigint": {"decimal(20,0)"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
    "decimal(3,2)": {"decimal(5,2)", "decimal(5,4)", "decimal(12,4)"},
    "decimal(5,2)": {"decimal(12,4)"},
    "decimal(5,4)": {"decimal(12,4)"},
    "decimal(10,0)": {"decimal(20,0)"},
}


@pytest.mark.parametrize("narrow", KINDS)
def test_types_are_widened_as_delta_does_it(narrow: str) -> None:
    found = {wide for wide in KINDS if widens(type_of(narrow), type_of(wide))}
    assert found == DELTA_WIDENS.get(narrow, set())


@pytest.mark.parametrize(
    ("found", "needed", "wide"),
    [
        ("tinyint", "bigint", "bigint"),
        ("int", "double", "double"),
        ("decimal(5,2)", "bigint", "decimal(22,2)"),
        ("decimal(5,2)", "decimal(5,4)", "decimal(7,4)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("decimal(38,2)", "decimal(10,9)", None),
        ("bigint", "double", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("map<string,array<float>>", "map<string,array<double>>", "map<string,array<double>>"),
        ("array<int>", "array<string>", None),
        ("array<int>", "bigint", None),
        ("bigint", "string", None),
        ("float", "bigint", None),
        ("date", "timestamp", None),
        ("double", "decimal(5,2)", None),
        ("bigint", "int", None),
    ],
)
def test_a_column_gets_the_narrowest_type_for_old_and_new_values(found: str, needed: str, wide: str | None) -> None:
    got = widened(type_of(found), type_of(needed))
    assert (None if got is None else got.simpleString()) == wide


@pytest.mark.parametrize(
    ("path", "kind", "change"),
    [
        ("n", "BIGINT", "n: int -> bigint"),
        ("address.code", "INT", "address.code: tinyint -> int"),
        ("items[]", "BIGINT", "items[]: int -> bigint"),
        ("items", "STRING", None),
        ("by_day{}", "DOUBLE", "by_day{}: float -> double"),
        ("day", "BIGINT", None),
        ("gone", "BIGINT", None),
    ],
)
def test_a_column_is_widened_where_delta_can(path: str, kind: str, change: str | None) -> None:
    table = "n INT, address STRUCT<code: TINYINT>, items ARRAY<INT>, by_day MAP<STRING, FLOAT>, day INT"
    proposal = proposed(misfits=((path, kind),), table=table, partition_by=("day",))
    assert (None if proposal.change is None else str(proposal.change)) == change
    assert (path in proposal.refused) == (change is None and path != "gone")


# -- what records have


def effective(configured: str, table: str | None, **rules: bool) -> str:
    found = None if table is None else columns_of(table)
    columns = effective_columns(
        columns_of(configured).fields, found, EvolutionRules(**rules), left_out={"_source", "day"}
    )
    return type_text(StructType([*columns]))


@pytest.mark.parametrize(
    ("configured", "table", "rules", "expected"),
    [
        ("a INT", None, {"add": True}, "struct<a:int>"),
        ("a INT", "a INT, b INT", {}, "struct<a:int>"),
        ("a INT", "b INT, a INT, day DATE, _source STRUCT<x: INT>", {"add": True}, "struct<a:int,b:int>"),
        ("a INT", "A INT, b INT", {"add": True}, "struct<a:int,b:int>"),
        ("s STRUCT<b: INT>", "s STRUCT<a: INT, b: INT>", {"add": True}, "struct<s:struct<a:int,b:int>>"),
        ("s STRUCT<b: INT>", "s STRUCT<a: INT, b: INT>", {"widen": True}, "struct<s:struct<b:int>>"),
        ("s STRUCT<b: INT, c: INT>", "s STRUCT<a: INT>", {"add": True}, "struct<s:struct<a:int,b:int,c:int>>"),
        (
            "l ARRAY<STRUCT<a: INT>>",
            "l ARRAY<STRUCT<a: INT, b: INT>>",
            {"add": True},
            "struct<l:array<struct<a:int,b:int>>>",
        ),
        ("m MAP<STRING, INT>", "m MAP<STRING, BIGINT>", {"widen": True}, "struct<m:map<string,bigint>>"),
        ("a INT", "a BIGINT, b INT", {"widen": True}, "struct<a:bigint>"),
        ("a INT", "a BIGINT", {"add": True}, "struct<a:int>"),
        ("a BIGINT", "a INT", {"widen": True}, "struct<a:bigint>"),
        ("a INT", "a STRING", {"add": True, "widen": True}, "struct<a:int>"),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT>, c INT", {"others_add": True}, "struct<s:struct<a:int,b:int>>"),
        ("a INT", "a BIGINT, c INT", {"others_widen": True}, "struct<a:bigint>"),
    ],
)
def test_the_table_says_which_columns_records_have(
    configured: str, table: str | None, rules: dict[str, bool], expected: str
) -> None:
    assert effective(configured, table, **rules) == expected


def test_a_column_that_the_table_computes_is_not_read_from_records() -> None:
    table = StructType(
        columns_of("a INT").fields + StructType().add("g", "integer", True, {"delta.generationExpression": "a"}).fields
    )
    assert [f.name for f in effective_columns(columns_of("a INT").fields, table, BOTH, left_out=())] == ["a"]


def test_a_column_that_the_format_cannot_hold_is_not_read_from_records() -> None:
    table = columns_of("a INT, s STRUCT<x: INT>, b INT, l ARRAY<INT>")
    rules = EvolutionRules(add=True, formats=("csv",))
    assert [f.name for f in effective_columns(columns_of("a INT").fields, table, rules, left_out=())] == ["a", "b"]


def test_not_null_stays_with_the_configured_column() -> None:
    (column, other) = effective_columns(
        columns_of("a INT NOT NULL").fields, columns_of("a BIGINT, b INT"), BOTH, left_out=()
    )
    assert (column.nullable, column.dataType.simpleString(), other.nullable) == (False, "bigint", True)


def test_a_name_begins_with_a_letter_or_an_underscore() -> None:
    assert [name for name in ("a", "a_1", "user-agent", "$ref", "@type", "über") if why_unsafe(name)] == [
        "$ref",
        "@type",
    ]


@pytest.mark.parametrize(
    ("sql", "column", "kind"),
    [
        ("coalesce(n, 0)", "n", "bigint"),
        ("`N` > 0", "n", "bigint"),
        ("by_day['mon'] + 1", "by_day{}", "double"),
        ("to_json(inner)", "inner.small", "bigint"),
    ],
)
def test_a_column_that_an_expression_names_is_not_widened(sql: str, column: str, kind: str) -> None:
    table = f"{TABLE}, inner STRUCT<small: INT>"
    rules = EvolutionRules(widen=True, derive=(("c", sql),))
    derived = proposed(misfits=((column, kind),), table=table, rules=rules)
    assert derived == SchemaProposal(None, {column: f"derived column c ({sql}) names it, and depends on its type"})
    by_table = proposed(misfits=((column, kind),), table=table, dependents=(Dependent("constraint k", sql),))
    assert by_table == SchemaProposal(None, {column: "constraint k names it, and depends on its type"})
    other = proposed(misfits=((column, kind),), table=table, rules=EvolutionRules(widen=True, derive=(("c", "id"),)))
    assert other.change is not None
