"""Inference of whole CSV and XML files compared with Spark's: what differs is in docs/schemas.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from blizzard.config.ddl import Atomic, Column, Struct, Type
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.types import BIGINT
from spark_job.table.schema_ddl import schema_of
from tests.spark.test_infer_agrees_with_spark import by_name
from tests.unit.csv_tables import KINDS, Table, csv_text, file_of, inferred, tables

pytestmark = pytest.mark.spark

Spark = Callable[[], SparkSession]
INT = Atomic("int")


def ddl(found: Struct) -> str:
    return ddl_of(found.columns, with_not_null=False)


# -- CSV


def csv_by_spark(spark: Spark, file: Path) -> StructType:
    return spark().read.csv(str(file), header=True, inferSchema=True).schema


def small_as_int(found: Struct, table: Table) -> Struct:
    """Spark takes whole numbers for INT where all of them fit."""

    def kind_of(column: Column) -> Type:
        fit = column.type == BIGINT and all(abs(int(value)) < 1 << 31 for value in table[column.name] if value)
        return INT if fit else column.type

    return Struct(tuple(Column(column.name, kind_of(column)) for column in found.columns))


def test_tables_of_csv_have_the_types_that_spark_infers(spark: Spark) -> None:
    @settings(max_examples=25)
    @given(tables())
    def agree(table: Table) -> None:
        with file_of(csv_text(table), "a.csv") as file:
            assert ddl(small_as_int(inferred(file), table)) == schema_of(csv_by_spark(spark, file), without=())

    agree()


CSV_DIFFERENCES = [
    (["2026-11-21", "1999"], "a TIMESTAMP", "a STRING"),
    (["2026-11-21 10:00:00", "1999"], "a TIMESTAMP", "a STRING"),
    (["1999", "2026-11-21"], "a STRING", "a STRING"),
    (["17", "-2"], "a INT", "a BIGINT"),
    (["007", "008"], "a INT", "a STRING"),
    (["9223372036854775808", "1"], "a DECIMAL(19,0)", "a DECIMAL(20,0)"),
    (["1e999", "1"], "a DOUBLE", "a STRING"),
    (["1.5e1"], "a DECIMAL(2,0)", "a DOUBLE"),
]


@pytest.mark.parametrize(("values", "sparks", "here"), CSV_DIFFERENCES, ids=str)
def test_csv_that_differs(spark: Spark, values: list[str], sparks: str, here: str) -> None:
    with file_of(csv_text({"a": values}), "a.csv") as file:
        assert (schema_of(csv_by_spark(spark, file), without=()), ddl(inferred(file))) == (sparks, here)


# -- XML


def xml_by_spark(spark: Spark, file: Path) -> StructType:
    return spark().read.format("xml").option("rowTag", "o").load(str(file)).schema


def element(name: str, value: Any) -> str:
    """`value`: a text, a list of values of elements of this name, or a mapping of the elements inside and, with `_`, of
    the attributes."""
    if isinstance(value, list):
        return "".join(element(name, one) for one in value)
    if isinstance(value, str):
        return f"<{name}>{escape(value)}</{name}>"
    attributes = "".join(f' {key[1:]}="{escape(held)}"' for key, held in value.items() if key[0] == "_")
    inside = "".join(element(key, held) for key, held in value.items() if key[0] != "_")
    return f"<{name}{attributes}>{inside}</{name}>"


def xml_text(records: list[dict[str, Any]]) -> str:
    return f"<all>{''.join(element('o', record) for record in records)}</all>"


leaves = {kind: values for kind, values in KINDS.items() if kind != "small"}


def records_of(kinds: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """`kinds`: of an attribute, of two elements, of one that is repeated, and of one inside another."""
    attribute, one, other, repeated, inner = (leaves[kind] for kind in kinds)
    record = st.fixed_dictionaries(
        {"one": one},
        optional={
            "_key": attribute,
            "other": other,
            "many": st.lists(repeated, min_size=1, max_size=3),
            "part": st.fixed_dictionaries({"inner": inner}, optional={"_key": attribute}),
        },
    )
    return st.lists(record, min_size=1, max_size=4)


xml_records = st.lists(st.sampled_from([*leaves]), min_size=5, max_size=5).flatmap(records_of)


def test_records_of_xml_have_the_types_that_spark_infers(spark: Spark) -> None:
    @settings(max_examples=25)
    @given(xml_records)
    def agree(records: list[dict[str, Any]]) -> None:
        with file_of(xml_text(records), "a.xml") as file:
            assert schema_of(xml_by_spark(spark, file), without=()) == ddl(by_name(inferred(file)))  # type: ignore[arg-type]

    agree()


XML_DIFFERENCES = [
    ("<b>1</b><a>2</a>", "a BIGINT, b BIGINT", "b BIGINT, a BIGINT"),
    ("<a>007</a>", "a BIGINT", "a STRING"),
    ("<a>+49</a>", "a BIGINT", "a STRING"),
    ("<a>00.5</a>", "a DOUBLE", "a STRING"),
    ("<a>9223372036854775808</a>", "a DOUBLE", "a DECIMAL(19,0)"),
    ("<a>1e999</a>", "a DOUBLE", "a STRING"),
    ("<zip>10115</zip>", "zip BIGINT", "zip STRING"),
    ("<a/>", "a STRING", "a STRING"),
]


@pytest.mark.parametrize(("inside", "sparks", "here"), XML_DIFFERENCES, ids=[text for text, _, _ in XML_DIFFERENCES])
def test_xml_that_differs(spark: Spark, inside: str, sparks: str, here: str) -> None:
    with file_of(f"<all><o>{inside}</o><o>{inside}</o></all>", "a.xml") as file:
        assert (schema_of(xml_by_spark(spark, file), without=()), ddl(inferred(file))) == (sparks, here)
