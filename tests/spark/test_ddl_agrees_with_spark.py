"""Our DDL parser against that of the Spark that runs the jobs: both accept the same texts and read the same schema."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.java_gateway import launch_gateway

from blizzard.config import ddl

pytestmark = pytest.mark.spark
Parse = Callable[[str], Any]
SPARK_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@pytest.fixture(scope="module")
def spark_reads() -> Iterator[Parse]:
    """The JVM call behind `StructType.fromDDL`, without a session that other tests would inherit; None when refused."""
    gateway = launch_gateway()

    def read(text: str) -> Any:
        try:
            schema = json.loads(gateway.jvm.org.apache.spark.sql.api.python.PythonSQLUtils.ddlToJson(text))
        except Py4JError:
            return None
        return schema if isinstance(schema, dict) and schema["type"] == "struct" and schema["fields"] else None

    yield read
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


def blizzard_reads(text: str) -> Any:
    try:
        return as_spark_prints(ddl.parse(text))
    except ddl.DdlError:
        return None


def as_spark_prints(kind: ddl.Type) -> Any:
    match kind:
        case ddl.Atomic(name):
            return SPARK_NAMES.get(name, name)
        case ddl.Decimal():
            return str(kind)
        case ddl.Array(element):
            return {"type": "array", "elementType": as_spark_prints(element), "containsNull": True}
        case ddl.Map(key, value):
            printed = {"keyType": as_spark_prints(key), "valueType": as_spark_prints(value)}
            return {"type": "map", "valueContainsNull": True, **printed}
        case ddl.Struct(columns):
            return {"type": "struct", "fields": [field(column) for column in columns]}


def field(column: ddl.Column) -> Any:
    metadata = {} if column.comment is None else {"comment": column.comment}
    kind = as_spark_prints(column.type)
    return {"name": column.name, "type": kind, "nullable": column.nullable, "metadata": metadata}


ATOMIC = [
    "boolean",
    "tinyint",
    "byte",
    "smallint",
    "short",
    "int",
    "integer",
    "bigint",
    "long",
    "float",
    "real",
    "double",
    "date",
    "timestamp",
    "timestamp_ltz",
    "timestamp_ntz",
    "string",
    "binary",
    "decimal",
    "dec",
    "numeric",
]
ACCEPTED = [
    *(f"a {name}, B {name.upper()}" for name in ATOMIC),
    "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING",
    "a: int, b: string",
    "struct<a: int, b string not null>",
    " a\tint\n,\r\nb\u00a0int ",
    "a struct<b: int not null comment 'c', `d e` array<map<string, struct<>>>> comment 'x'",
    "a array < array<array<int> > >",
    "struct struct<struct:int>, array array<int>, map map<map<int,int>,int>",
    "time int, select int, from int, not int, null int, comment string, struct int",
    "1a int, _b int, 1_000 int, 1e5L int, 1e int, 1b int, `` int, `a``b` int, `é.\u2013` int",
    "a decimal(5), b dec(38,38), c numeric( 05 , 00002 ), d decimal(0)",
    "a timestamp without time zone",
    "a int ! null, b int not /* why */ null",
    "a int, a int, A int",
    "a int -- the rest, b int",
    "a int -- the rest\n, b int",
    "a int -- continues \\\n, b int",
    "a int /* one /* in */ another */, b int",
    "a int comment'x', b int comment \"y\", c int comment r'\\n', d int comment R\"'\", e int comment ''",
    "a int comment 'it''s', b int comment 'it\\'s' \"x\"\"y\" 'z'",
    "a int comment '\\t\\n\\r\\b\\0\\Z\\q\\%\\_\\\\\\u0041\\U0001F600\\101\\400\\18\\u12'",
    "a int comment '\"\"', b int comment \"''\"",
    "`a`int, b array<int>comment 'x'",
]
REFUSED = [
    *[
        "int",
        "a",
        "a int,",
        ", a int",
        "a int,, b int",
        "a int b int",
        "a int; b int",
        "a-b int",
        "a.b int",
        "é int",
        "'a' int",
        '"a" int',
    ],
    *[
        "a text",
        "a bool",
        "a number",
        "a json",
        "a datetime",
        "a object",
        "a uuid",
        "a string(5)",
        "a int(5)",
        "a float(3)",
        "a enum",
    ],
    *["a struct", "a array", "a map", "a array<>", "a map<>", "a map<int>", "a map<int,int,int>", "a array<int,int>"],
    *["a struct<b int,>", "a array<int", "a array<int>>", "a array<struct<b:int>>>", "a struct<struct<b:int>>"],
    *["a array<int not null>", "a struct<b::int>", "a struct<b: :int>", "a: : int"],
    *[
        "a decimal()",
        "a decimal(5,)",
        "a decimal(5,6)",
        "a decimal(39)",
        "a decimal(5,-1)",
        "a decimal(1e1)",
        "a decimal(x)",
    ],
    "a decimal(99999999999999999999)",
    *["a int not", "a not null int", "a int null", "a int not null not null", "a int default 1", "a int as (1)"],
    *[
        "a int comment",
        "a int comment x",
        "a int comment 'x' not null",
        "a int comment 'x' comment 'y'",
        "a int comment 'x",
    ],
    *["1 int", "1.5 int", "1e5 int", "1d int", "1l int", "1s int", "1y int", "1f int", "1bd int", "1e5f int"],
    *["a timestamp with time zone", "a timestamp without time", "a timestamp(3)", "a double precision"],
    *[
        "a int /* x",
        "a int /*+ x */",
        "`a int",
        "a int -- x -- y\n z",
        "\ufeffa int",
        "a\u200bint",
        "struct<a: int",
        "struct<>",
        "struct<a int> x",
    ],
]
UNSUPPORTED = [
    "char(5)",
    "character(5)",
    "varchar(5)",
    "void",
    "variant",
    "interval",
    "interval day to second",
    "time",
    "time(3)",
    "array<void>",
    "geography(4326)",
    "geometry(any)",
    "string collate UTF8_LCASE",
    "struct<b: interval year>",
    "map<string, variant>",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_schema_that_spark_accepts_is_read_as_spark_reads_it(spark_reads: Parse, text: str) -> None:
    assert spark_reads(text) is not None
    assert blizzard_reads(text) == spark_reads(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_schema_that_spark_refuses_is_refused(spark_reads: Parse, text: str) -> None:
    assert (blizzard_reads(text), spark_reads(text)) == (None, None)


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_a_type_that_delta_or_json_cannot_hold_is_refused_although_spark_knows_it(
    spark_reads: Parse, kind: str
) -> None:
    assert spark_reads(f"a {kind}") is not None
    assert blizzard_reads(f"a {kind}") is None


def test_an_empty_text_is_refused() -> None:
    assert blizzard_reads("") is None


def cased(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([text.lower(), text.upper(), text.title()])


names = st.one_of(
    st.from_regex(r"[A-Za-z0-9_]{1,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6).map(
        lambda s: f"`{s.replace('`', '``')}`"
    ),
)
texts = st.text(st.sampled_from("abcé'\"\\nrtuU01489%_Z \n-/*"), max_size=12)
quoted = st.one_of(
    texts.map(lambda s: "'" + s.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    texts.map(lambda s: "'" + s.replace("'", "''") + "'"),
    texts.map(lambda s: '"' + s.replace('"', '""') + '"'),
    texts.map(lambda s: "r'" + s.replace("'", "") + "'"),
)
gaps = st.sampled_from([" ", " ", " ", "\n", "\t ", " /* x */ ", " -- x\n"])
digits = st.integers(0, 40).map(str)
atomic = st.one_of(
    st.sampled_from(ATOMIC).flatmap(cased), st.tuples(digits, digits).map("decimal({0[0]}, {0[1]})".format)
)


def columns(kinds: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comment = st.lists(quoted, min_size=1, max_size=2).map(lambda parts: " comment " + " ".join(parts))
    null = st.sampled_from(["", "", " not null", " NOT NULL"])
    column = st.tuples(names, gaps, kinds, null, st.one_of(st.just(""), comment)).map("".join)
    return st.lists(column, min_size=1, max_size=4).map(" , ".join)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    maps = st.tuples(inner, inner).map("map<{0[0]},{0[1]}>".format)
    return st.one_of(inner.map("array<{}>".format), maps, columns(inner).map("struct<{}>".format), st.just("struct<>"))


schemas = columns(st.recursive(atomic, nested, max_leaves=6))
WORDS = [
    *["a", "b", "struct", "array", "map", "int", "string", "decimal", "timestamp", "not", "null", "comment", "r"],
    "without time zone",
    "without",
]
MARKS = ["<", ">", "<>", ">>", "(", ")", ",", ":", "!", "'x'", '"y"', "`z`", "5", "2", "--x\n", "/*x*/", "-", "."]
pieces = st.lists(st.tuples(st.sampled_from(WORDS + MARKS), st.sampled_from(["", " ", " "])).map("".join), max_size=12)
with_spark = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@with_spark
@given(text=schemas)
def test_any_schema_is_read_as_spark_reads_it(spark_reads: Parse, text: str) -> None:
    assert blizzard_reads(text) == spark_reads(text)


@with_spark
@given(text=pieces.map("".join))
def test_any_sequence_of_tokens_is_accepted_or_refused_as_by_spark(spark_reads: Parse, text: str) -> None:
    assert blizzard_reads(f"c {text}") == spark_reads(f"c {text}")


@with_spark
@given(text=schemas, data=st.data())
def test_a_schema_with_a_piece_cut_out_is_accepted_or_refused_as_by_spark(
    spark_reads: Parse, text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text)))
    cut = text[:start] + text[start + data.draw(st.integers(1, 4)) :]
    assert blizzard_reads(cut) == spark_reads(cut)
