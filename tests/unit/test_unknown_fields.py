"""Fields that no column is for: counted by every format, over blocks and files, into receipts."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.config.ddl import Atomic
from blizzard.state.receipts import Receipts
from blizzard.state.unknown_fields import MAX_NAMES, NO_FIELDS, UnknownField, UnknownFields
from blizzard.storage.local import LocalStore
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.unknown_keys import UnknownKeys
from spark_job.formats.protocol import Misfits
from spark_job.formats.protocol import UnknownField as Found
from spark_job.formats.unknown_counts import MisfitCounts
from spark_job.table.schema import columns_of
from spark_job.tasks.report import Report
from spark_job.tasks.unknown_fields import MAX_NAMES as KEPT_NAMES
from spark_job.tasks.unknown_fields import FieldCount, UnknownFieldCounts, merged
from tests.unit.format_reading import unknown_in

NESTED = "s STRUCT<a: INT>, l ARRAY<STRUCT<b: INT>>, m MAP<STRING, STRUCT<c: INT>>"


def in_blocks(ddl: str, *blocks: list[str]) -> list[dict[str, tuple[int, int]]]:
    """What one parser finds in each of these blocks of lines: the number of records, and the first."""
    parser = NdjsonParser(columns_of(ddl))
    found = [parser.parse("\n".join(lines).encode()).unknown for lines in blocks]
    return [{name: (field.records, field.first) for name, field in unknown.items()} for unknown in found]


def test_lines_without_other_keys_have_none() -> None:
    assert in_blocks("id INT", ['{"id": 1}', '{"id": null}', "{}"], ['{"id": "x"}', '{"id": ']) == [{}, {}]


def test_keys_are_counted_whatever_the_blocks_before_had() -> None:
    some = ['{"id": 1}', '{"id": 2, "x": 1, "ID": 9}', '{"x": [1], "y": null}']
    changing = ['{"x": 1}', '{"x": "a"}']
    expected = {"x": (2, 1), "ID": (1, 1)}
    assert in_blocks("id INT", some, some, changing, some) == [expected, expected, {"x": (2, 0)}, expected]


def test_keys_of_lines_that_are_refused_or_left_to_spark_are_counted() -> None:
    lines = ['{"id": 1}', '{"id": "x", "y": 1}', '{"id": }', '{"id": 4, "z": 1', "17", '{"id": 6}']
    assert in_blocks("id INT", lines) == [{"y": (1, 1)}]
    assert in_blocks("id STRING", ['{"id": 1, "y": 1}', '{"id": "a"}']) == [{"y": (1, 0)}]


def test_keys_of_good_lines_among_bad_ones_are_counted() -> None:
    lines = ['{"id": 1, "x": 1}', '{"id": ', '{"id": 3}', '{"id": 4, "x": 2}']
    assert in_blocks("id INT", lines, lines) == [{"x": (2, 0)}] * 2


def test_keys_inside_structs_arrays_and_maps() -> None:
    lines = [
        '{"s": {"a": 1, "z": {"q": 1}}}',
        '{"l": [{"b": 1}, {"b": 2, "c": 3}, {"c": 4}], "m": {"k": {"c": 1, "d": 2}, "n": null}}',
        '{"s": null, "l": [], "m": {}}',
    ]
    assert in_blocks(NESTED, lines) == [{"s.z": (1, 0), "l[].c": (1, 1), "m{}.d": (1, 1)}]
    without_maps = NESTED.partition(", m ")[0]
    assert in_blocks(without_maps, lines) == [{"s.z": (1, 0), "l[].c": (1, 1), "m": (2, 1)}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abxy"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["s", "l", "x", "y"]), VALUES, max_size=4), min_size=1, max_size=5))
def test_a_block_of_lines_and_the_lines_themselves_give_the_same_counts(records: list[dict[str, Any]]) -> None:
    ddl = NESTED.partition(", m ")[0]
    lines = [json.dumps(record).encode() for record in records]
    by_lines = UnknownKeys(columns_of(ddl)).of(lines, range(len(lines)))
    parser = NdjsonParser(columns_of(ddl))
    for _ in range(2):  # before and after the parser knows that there are such keys
        assert parser.parse(b"\n".join(lines)).unknown == by_lines


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def avro(records: list[dict[str, Any]], *names: str) -> bytes:
    file = io.BytesIO()
    fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "ddl", "stored", "options", "expected"),
    [
        ("csv", "id INT", b"x,id,ID\n1,2,3\n,5,6\n", {}, {"x": Found(2, 0), "ID": Found(2, 0)}),
        ("csv", "id INT", b"1,2\n", {"header": ["id", "x"]}, {"x": Found(1, 0)}),
        ("json", "id INT", b'[{"id": 1}, {"x": {"y": 1}}, {"x": 1}]', {}, {"x": Found(2, 1)}),
        ("ndjson", "id INT", b'{"id": 1}\n\n{"x": 1}', {}, {"x": Found(1, 1)}),
        ("avro", "id INT", avro([{"id": 1}, {"x": 2}], "id", "x"), {}, {"x": Found(2, 0)}),
        (
            "parquet",
            "s STRUCT<a: INT>, l ARRAY<STRUCT<b: INT>>",
            parquet(
                pa.table({"s": [{"a": 1, "z": 2}], "l": [[{"b": 1, "c": 2}]], "q": [1]}).cast(
                    pa.schema(
                        [
                            ("s", pa.struct([("a", pa.int32()), ("z", pa.int32())])),
                            ("l", pa.list_(pa.struct([("b", pa.int32()), ("c", pa.int32())]))),
                            ("q", pa.int32()),
                        ]
                    )
                )
            ),
            {},
            {"s.z": Found(1, 0), "l[].c": Found(1, 0), "q": Found(1, 0)},
        ),
        (
            "xml",
            "id INT, s STRUCT<a: INT>",
            b"<r><o><id>1</id></o><o k='1'><id unit='x'>2</id><s><a>1</a><z/><z/></s>text</o></r>",
            {"row_tag": "o"},
            {"_k": Found(1, 1), "id._unit": Found(1, 1), "s.z": Found(1, 1), "_VALUE": Found(1, 1)},
        ),
        (
            "xml",
            "m MAP<STRING, INT>",
            b"<r><o><m>lost<k>1</k></m></o></r>",
            {"row_tag": "o"},
            {"m._VALUE": Found(1, 0)},
        ),
        (
            "json",
            "id INT",
            b'[{"id": 1, "x": 2}, {"id": 2, "x": "a\nb"}, {"id": 3, "x": 4}]',
            {},
            {"x": Found(2, 0)},
        ),
        ("text", "value STRING", b"a", {}, {}),
        ("binary", "content BINARY, length BIGINT", b"a", {}, {}),
    ],
)
def test_each_format_counts_them(name: str, ddl: str, stored: bytes, options: dict[str, Any], expected: Any) -> None:
    assert unknown_in(name, ddl, stored, **options) == expected


def test_counts_of_tasks_are_added_and_the_first_file_is_kept() -> None:
    one, other = UnknownFieldCounts(), UnknownFieldCounts()
    one.add("x", FieldCount(2, "a", 7, Atomic("int")))
    other.add("x", FieldCount(3, "b", 0, Atomic("bigint")))
    other.add("y", FieldCount(9, "b", 1))
    there_and_back = UnknownFieldCounts.from_document(other.as_document())
    assert merged([one, there_and_back]) == UnknownFields(
        (UnknownField("y", 9, "b", 1), UnknownField("x", 5, "a", 7, kind="BIGINT"))
    )


def test_a_value_for_which_a_column_can_be_widened_comes_before_one_for_which_none_can() -> None:
    """It is what brings the change, and what the history of the schema names."""
    counts = MisfitCounts()
    counts.add({"x": None}, 2)
    counts.add({"x": Atomic("int")}, 5)
    counts.add({"x": Atomic("bigint")}, 6)
    counts.add({"x": None}, 7)
    assert counts.found == {"x": Misfits(4, 5, Atomic("bigint"))}
    found = UnknownFieldCounts()
    for file, kind in (("a", None), ("b", Atomic("int")), ("c", Atomic("int")), ("d", None)):
        found.add("x", FieldCount(1, file, 3, kind))
    assert found.result() == UnknownFields((UnknownField("x", 4, "b", 3, kind="INT"),))


def test_a_name_that_no_text_can_hold_reaches_the_driver_as_json_writes_it() -> None:
    """A single file with such a key would otherwise fail every batch that it is in."""
    report = Report()
    report.unknown.add("ID\ud800", FieldCount(1, "a", 0))
    report.misfits.add("ä\udfff", FieldCount(2, "a", 0))
    arrived = Report.from_json(report.to_json())
    assert [field.name for field in arrived.unknown.result().fields] == ["ID\\ud800"]
    assert [field.name for field in arrived.misfits.result().fields] == ["ä\\udfff"]


def test_names_without_bound_take_bounded_memory() -> None:
    counts = UnknownFieldCounts()
    for number in range(KEPT_NAMES + 50):
        counts.add(f"n{number:05}" + "x" * 1_000, FieldCount(1, "a", 0))
    found = counts.result()
    assert (len(found.fields), found.more) == (KEPT_NAMES, 1)
    assert len(found.shortened().fields) == MAX_NAMES
    assert found.shortened().more == KEPT_NAMES - MAX_NAMES + 1
    assert max(len(field.name) for field in found.fields) == 200
    assert str(found).endswith(f", and {found.more:,} more")


def test_a_receipt_has_them_and_one_of_an_earlier_version_does_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    receipts = Receipts(store, "state")
    fields = UnknownFields((UnknownField("x", 5, "a", 3, near="X", kind="INT"), UnknownField("y", 1, "a")), 2)
    misfits = UnknownFields((UnknownField("z", 1, "b", 0),))
    written = receipts.put(
        sequence=0, attempt="a", previous=None, now_ts=1.0, lines=(), unknown_fields=fields, misfits=misfits
    )
    assert (receipts.get(written.name).unknown_fields, receipts.get(written.name).misfits) == (fields, misfits)
    assert UnknownFields.from_document(None) == NO_FIELDS
