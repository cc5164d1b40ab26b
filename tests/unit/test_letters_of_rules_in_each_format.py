"""A record that violates NOT NULL of the schema, NOT NULL of the table or a constraint is a dead letter, whatever its
format is, and the records around it are rows: expectations written by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.engine_lake import EngineLake
from tests.unit.odd_files import avro, json_array, ndjson, orc_file, parquet
from tests.unit.table_lake import change_metadata, lake, reasons

__all__ = ["lake"]

FIRST: Mapping[str, Any] = {"id": ["first"], "n": [1], "city": ["x"]}
SECOND: Mapping[str, Any] = {
    "id": ["a", "b", None, "d", "e", "f"],
    "n": [1, -1, 2, None, 0, 3],
    "city": ["x", "x", "x", "x", "x", None],
}
POSITIVE = "constraint positive (n >= 0): it is not true for the record"
REASONS = {
    1: POSITIVE,
    2: "id: NOT NULL, but it is missing or null",
    3: POSITIVE,
    5: "city: NOT NULL, but it is missing or null (the table requires it)",
}


@dataclass(frozen=True)
class Case:
    """`raw`: the texts of the refused records."""

    first: bytes
    second: bytes
    raw: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


def columns(values: Mapping[str, Any]) -> dict[str, pa.Array]:
    types = {"id": pa.string(), "n": pa.int64(), "city": pa.string()}
    return {name: pa.array(values[name], kind) for name, kind in types.items()}


def records(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


AVRO = {"id": "string", "n": "long", "city": "string"}
AS_JSON = (
    '{"id":"b","n":-1,"city":"x"}',
    '{"id":null,"n":2,"city":"x"}',
    '{"id":"d","n":null,"city":"x"}',
    '{"id":"f","n":3,"city":null}',
)
LINES = (
    '{"id": "a", "n": 1, "city": "x"}',
    '{"id": "b", "n": -1, "city": "x"}',
    '{"n": 2, "city": "x"}',
    '{"id": "d", "n": null, "city": "x"}',
    '{"id": "e", "n": 0, "city": "x"}',
    '{"id": "f", "n": 3}',
)
REFUSED_LINES = (LINES[1], LINES[2], LINES[3], LINES[5])
FIRST_LINE = '{"id": "first", "n": 1, "city": "x"}'
CASES = {
    "parquet": Case(parquet(columns(FIRST)), parquet(columns(SECOND)), AS_JSON),
    "orc": Case(orc_file(columns(FIRST)), orc_file(columns(SECOND)), AS_JSON),
    "avro": Case(avro(AVRO, records(FIRST)), avro(AVRO, records(SECOND)), AS_JSON),
    "xml": Case(
        b"<all><one><id>first</id><n>1</n><city>x</city></one></all>",
        b"<all><one><id>a</id><n>1</n><city>x</city></one><one><id>b</id><n>-1</n><city>x</city></one>"
        b"<one><n>2</n><city>x</city></one><one><id>d</id><n/><city>x</city></one>"
        b"<one><id>e</id><n>0</n><city>x</city></one><one><id>f</id><n>3</n></one></all>",
        (
            "<one><id>b</id><n>-1</n><city>x</city></one>",
            "<one><n>2</n><city>x</city></one>",
            "<one><id>d</id><n/><city>x</city></one>",
            "<one><id>f</id><n>3</n></one>",
        ),
        {"xml": {"row_tag": "one"}},
    ),
    "csv": Case(
        b"id,n,city\nfirst,1,x\n",
        b"id,n,city\na,1,x\nb,-1,x\n,2,x\nd,,x\ne,0,x\nf,3,\n",
        ("b,-1,x", ",2,x", "d,,x", "f,3,"),
    ),
    "json": Case(json_array(FIRST_LINE), json_array(*LINES), REFUSED_LINES),
    "ndjson": Case(ndjson(FIRST_LINE), ndjson(*LINES), REFUSED_LINES),
}


@pytest.mark.parametrize("name", CASES)
def test_a_record_that_violates_a_rule_is_a_dead_letter_and_the_others_are_rows(lake: EngineLake, name: str) -> None:
    case = CASES[name]
    lake.settings = {"format": name, "schema": "id STRING NOT NULL, n BIGINT, city STRING", **case.settings}
    lake.table_settings = {"constraints": {"positive": "n >= 0"}}
    lake.put_bytes(f"1.{name}", case.first)
    lake.run()
    change_metadata(lake, city={"nullable": False})
    lake.put_bytes(f"2.{name}", case.second)
    lake.run()
    rows = [(row["id"], row["n"], row["city"], row["_source"]["row"]) for row in lake.rows()]
    assert rows == [("first", 1, "x", 0), ("a", 1, "x", 0), ("e", 0, "x", 4)]
    assert reasons(lake) == {(f"2.{name}", number): why for number, why in REASONS.items()}
    letters = sorted(lake.letters(), key=lambda letter: letter["row"])
    assert [(letter["raw"], letter["stage"]) for letter in letters] == [(raw, "parse") for raw in case.raw]
