"""The columns that say where a row comes from."""

import json
from io import BytesIO

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import Message, MessageColumns
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.provenance import Provenance, RecordRange

PATHS = ("a.ndjson", "b.ndjson", "a.ndjson", "c.ndjson")


def columns() -> pa.StructArray:
    """Of records of which one file's are in two ranges, and another one's all left out."""
    ranges = [RecordRange(path, f"etag of {path}", 1.0, (), 10 * at, 3) for at, path in enumerate(PATHS)]
    (source,) = Provenance("p:s", 7, {}).columns(ranges, [0, 2, 4, 6, 7, 8])
    return source


def test_each_row_has_the_file_of_its_range() -> None:
    source = columns()
    assert source.field("file").to_pylist() == ["a.ndjson", "a.ndjson", "b.ndjson", *["a.ndjson"] * 3]
    assert source.field("etag").to_pylist() == [f"etag of {path}" for path in source.field("file").to_pylist()]
    assert source.field("row").to_pylist() == [0, 2, 11, 20, 21, 22]


def test_a_data_file_holds_no_bytes_of_the_process() -> None:
    """Arrow's Parquet writer takes room for each entry of a dictionary, and fills it once for equal ones."""
    source = columns()
    for name in ("file", "etag"):
        written = BytesIO()
        pq.write_table(pa.table({name: source.field(name)}), written, compression="none")
        column = pq.read_metadata(written).row_group(0).column(0)
        texts = {f"etag of {path}" if name == "etag" else path for path in PATHS}
        filled = sum(4 + len(text) for text in texts)
        header = column.data_page_offset - column.dictionary_page_offset - filled
        assert 0 < header < 20


def test_a_record_that_is_decided_later_has_the_time_that_rows_of_its_file_have() -> None:
    """Of two ways to round a time to microseconds one differs now and then."""
    for micros in range(1_795_608_453_651_018, 1_795_608_453_671_018, 7):
        source = RecordRange("a", "e", micros / 1e6 + 4e-7, (), 0, 1)
        (column,) = Provenance("p:s", 0, {}).columns([source], None)
        records = DeferredRecords(pa.schema([]), lambda: pytest.fail("nothing is written"))
        records.add(source, 0, b"{}", None)
        assert records._rows[0][3] == column.field("modified")[0].as_py()


def block(partition: int, *messages: Message) -> MessageBlock:
    return MessageBlock("t", partition, MessageColumns.of(messages), 3)


def test_letters_of_chosen_messages_have_their_keys_and_payloads() -> None:
    blocks = [
        block(0, Message(3, 1, b"a", (), b"x"), Message(7, 1, None, [("h", b"v")], b"\xff")),
        block(1, Message(5, 1, b"b", (), None), Message(6, 1, b"c", (), "é".encode())),
    ]
    ranges = [RecordRange(f"t/{n}", "id", 0.0, (), one.first_record, 2, each=one) for n, one in enumerate(blocks)]
    provenance = Provenance("p:s", 7, {}, letters=True)
    letters, source = provenance.columns(ranges, [1, 2, 3])
    assert [field.name for field in provenance.fields] == ["_blizzard_letter", "_source"]
    assert pc.struct_field(source, "row").to_pylist() == [7, 5, 6]
    found = letters.to_pylist()
    assert [(one["line"], one["undecodable"]) for one in found] == [(None, b"\xff"), ("", None), ("é", None)]
    assert [json.loads(one["about"])["key"] for one in found] == [None, "b", "c"]
    assert json.loads(found[0]["about"])["headers"] == [{"name": "h", "value": "v"}]
    assert len(provenance.columns(ranges, None)[0]) == 4
