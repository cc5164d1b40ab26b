"""Small ORC files, whose rows come with one answer of the process that reads them."""

import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.orc import format as orc_format
from spark_job.formats.orc.format import OrcFormat
from spark_job.formats.orc.known_schema import known_schema
from spark_job.formats.orc.reader import SmallRequest
from spark_job.formats.orc.small_file import MAX_BYTES, MORE_MEMORY_BYTES
from spark_job.formats.protocol import FileFault
from spark_job.table.schema import columns_of
from tests.unit.contents import StoredContent
from tests.unit.format_reading import LIMITS, Read, read_file
from tests.unit.orc_asked import Asked, asked_reader
from tests.unit.table_files import orc_file

GOOD = orc_file(pa.table({"id": list(range(10))}))
CRASHING = bytearray(orc_file(pa.table({"t": [["a"], ["b", "c"], []] * 4})))
CRASHING[58] ^= 1
"""pyarrow 26 crashes on it."""
TYPES: dict[str, tuple[str, pa.Array]] = {
    "i": ("BIGINT", pa.array([1, None, 3])),
    "b": ("BOOLEAN", pa.array([True, None, False])),
    "f": ("DOUBLE", pa.array([1.5, None, -2.0])),
    "s": ("STRING", pa.array(["a", None, "\u00e9"])),
    "r": ("BINARY", pa.array([b"\xff", None, b""])),
    "d": ("DECIMAL(9,2)", pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(9, 2))),
    "day": ("DATE", pa.array([date(2024, 2, 29), None, date(1600, 1, 1)])),
    "at": (
        "TIMESTAMP",
        pa.array([datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), None, None], pa.timestamp("ns", "UTC")),
    ),
    "l": ("ARRAY<STRING>", pa.array([["x", None], None, []])),
    "t": ("STRUCT<host: STRING, port: BIGINT>", pa.array([{"host": "h", "port": 1}, None, {"host": None, "port": 2}])),
    "m": ("MAP<STRING, ARRAY<INT>>", pa.array([[("k", [1])], None, []], pa.map_(pa.string(), pa.list_(pa.int32())))),
}


reader = pytest.fixture(asked_reader)


def rows_of(file_format: OrcFormat, stored: bytes, first_record: int = 0) -> list[dict[str, Any]]:
    blocks = [*file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=first_record)]
    rows: list[dict[str, Any]] = file_format.parse(blocks).records.to_pylist()
    return rows


def in_batches(monkeypatch: pytest.MonkeyPatch, ddl: str, stored: bytes, first_record: int = 0) -> Read:
    with monkeypatch.context() as patch:
        patch.setattr(orc_format, "MAX_BYTES", 0)
        return read_file("orc", ddl, stored, first_record=first_record)


def test_a_file_with_the_schema_of_the_one_before_is_one_question(reader: Asked) -> None:
    file_format = OrcFormat(columns_of("id BIGINT"), LIMITS)
    for _ in range(3):
        assert [row["id"] for row in rows_of(file_format, GOOD)] == list(range(10))
    assert reader.asked == ["small", "rows", "small", "small"]


def test_files_of_several_schemas_each_give_their_own_columns(reader: Asked) -> None:
    file_format = OrcFormat(columns_of("id BIGINT, name STRING"), LIMITS)
    both = orc_file(pa.table({"name": ["a", "b"], "other": [1, 2], "id": [3, 4]}))
    swapped = orc_file(pa.table({"id": ["5", "6"], "name": ["c", "d"]}))
    for _ in range(2):
        assert rows_of(file_format, GOOD)[9] == {"id": 9, "name": None}
        assert rows_of(file_format, both) == [{"id": 3, "name": "a"}, {"id": 4, "name": "b"}]
        with pytest.raises(FileFault, match="id: expected bigint, found string"):
            rows_of(file_format, swapped)
    assert set(reader.asked) == {"small", "rows"}


def test_the_same_files_for_another_table_give_its_columns(reader: Asked) -> None:
    stored = orc_file(pa.table({"a": [1], "b": [2]}))
    one, other = (OrcFormat(columns_of(ddl), LIMITS) for ddl in ("a BIGINT", "b BIGINT"))
    for _ in range(2):
        assert (rows_of(one, stored), rows_of(other, stored)) == ([{"a": 1}], [{"b": 2}])
    assert reader.asked == ["small", "rows", "small", "rows", "small", "small"]


def test_each_type_is_read_as_in_batches(reader: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    stored = orc_file(pa.table({name: values for name, (_, values) in TYPES.items()}))
    small = read_file("orc", ddl, stored)
    assert reader.asked == ["small", "rows"]
    assert small == in_batches(monkeypatch, ddl, stored)
    assert len(small.rows) == 3


def test_names_in_other_case_are_found_at_any_depth(reader: Asked) -> None:
    stored = orc_file(pa.table({"ID": [1], "Tags": pa.array([[{"Key": "k"}]])}))
    rules = SchemaRules(keys="ignore_case")
    found = read_file("orc", "id BIGINT, tags ARRAY<STRUCT<key: STRING>>", stored, rules=rules)
    assert found.values == [{"id": 1, "tags": [{"key": "k"}]}]
    assert reader.asked == ["small", "rows"]


@pytest.mark.parametrize("first_record", [0, 1, 9, 10, 11])
def test_it_is_read_from_any_record(first_record: int) -> None:
    assert [*read_file("orc", "id BIGINT", GOOD, first_record=first_record).rows] == [*range(first_record, 10)]


def test_many_rows_are_blocks_of_some_size(reader: Asked) -> None:
    stored = orc_file(
        pa.table({"id": list(range(50_000)), "s": [f"{n:040}" for n in range(50_000)]}), compression="zlib"
    )
    file_format = OrcFormat(columns_of("id BIGINT, s STRING"), LIMITS)
    blocks = [*file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=7)]
    assert [block.first_record for block in blocks] == [7, *(block.first_record + block.count for block in blocks[:-1])]
    assert blocks[-1].first_record + blocks[-1].count == 50_000
    assert all(block.size_bytes < 3 << 20 for block in blocks)
    assert len(blocks) > 1
    assert reader.asked == ["small", "rows"]


def test_larger_files_and_several_stripes_are_read_in_batches(reader: Asked) -> None:
    rng = random.Random(7)
    large = orc_file(pa.table({"s": [rng.randbytes(1 << 12).hex() for _ in range(600)]}))
    assert len(large) > MAX_BYTES
    assert len(read_file("orc", "s STRING", large).rows) == 600
    assert "small" not in reader.asked
    reader.asked.clear()
    stripes = orc_file(pa.table({"id": list(range(40_000))}), stripe_size=1, batch_size=10_000)
    assert [*read_file("orc", "id BIGINT", stripes).rows] == list(range(40_000))
    assert reader.asked[:4] == ["small", "rows", "open", "batches"]


def test_one_with_fewer_rows_than_it_says_is_refused(reader: Asked) -> None:
    at = len(GOOD) - 57  # the number of rows in the footer
    assert GOOD[at] == 10
    with pytest.raises(FileFault, match="it says that the file has 11 rows, and it has 10"):
        read_file("orc", "id BIGINT", GOOD[:at] + b"\x0b" + GOOD[at + 1 :])
    assert reader.asked[:3] == ["small", "rows", "open"]


def test_columns_whose_parts_do_not_fit_together_are_refused() -> None:
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    entries = [maps.keys, pa.array([1, 2, 3])]
    fields = [maps.type.key_field, maps.type.item_field]
    odd = pa.Array.from_buffers(pa.struct(fields), 2, [None], children=entries)
    made = pa.Array.from_buffers(maps.type, 2, [None, maps.offsets.buffers()[1]], children=[odd])
    schema = pa.schema([("m", maps.type)])
    columns = OrcFormat(columns_of("m MAP<STRING, BIGINT>"), LIMITS).columns_of(schema)
    known = known_schema(schema.serialize().to_pybytes(), schema, columns)
    assert known is not None
    known.check(pa.record_batch([maps], schema=schema))
    with pytest.raises(FileFault, match="a map has 2 keys and 3 values"):
        known.check(pa.record_batch([made], schema=schema))


def test_one_that_takes_much_memory_is_read_in_batches(reader: Asked) -> None:
    """Less than a megabyte, of which the rows are 160: the process never has many of them."""
    read_file("orc", "id BIGINT", GOOD)
    assert reader._process is not None
    stored = orc_file(pa.table({"s": ["x" * 4_000] * 40_000}), compression="zlib")
    assert len(stored) < MAX_BYTES
    file_format = OrcFormat(columns_of("s STRING"), LIMITS)
    before = peak_bytes(reader._process.pid)
    blocks = file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=0)
    assert sum(block.count for block in blocks) == 40_000
    assert reader.asked[2:5] == ["small", "rows", "open"]
    assert peak_bytes(reader._process.pid) - before < MORE_MEMORY_BYTES


def test_a_small_file_of_very_large_rows_is_read_some_rows_at_a_time(reader: Asked) -> None:
    """A batch of the usual number of rows takes more memory than a file of this size may."""
    stored = orc_file(pa.table({"s": ["x" * 260_000] * 1_000}), compression="zstd")
    assert len(stored) < MAX_BYTES
    file_format = OrcFormat(columns_of("s STRING"), LIMITS)
    numbers: list[int] = []
    for block in file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=3):
        assert block.batch.column(0)[0].as_py() == "x" * 260_000
        numbers += range(block.first_record, block.first_record + block.count)
    assert numbers == [*range(3, 1_000)]
    assert reader.asked.count("open") == 2


@pytest.mark.parametrize(("size", "fits"), [(MAX_BYTES, False), (MAX_BYTES + 1, True)])
def test_lengths_in_a_small_damaged_file_do_not_take_what_a_large_file_may(size: int, fits: bool) -> None:
    """Such as those of a column of text, which pyarrow allocates before it reads."""
    program = (
        "from spark_job.formats.orc.reader_process import MemoryLimit\n"
        f"MemoryLimit().allow_for({size})\n"
        "bytearray(256 << 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("MemoryError") is not fits
    assert (done.returncode == 0) is fits


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) << 10


def test_a_crash_is_the_fault_of_its_file_whose_verdict_is_the_one_in_batches(reader: Asked) -> None:
    good = orc_file(pa.table({"t": [["a"]]}))
    for _ in range(2):
        assert read_file("orc", "t ARRAY<STRING>", good).values == [{"t": ["a"]}]
        reader.asked.clear()
        with pytest.raises(
            FileFault, match=r"^not valid ORC, or damaged: the process that read it ended \(signal 11\)$"
        ):
            read_file("orc", "t ARRAY<STRING>", bytes(CRASHING))
        assert reader.asked[:3] == ["small", "rows", "open"]


class Killed(Asked):
    """Its process is killed as it gets the next small file, and by nothing in it."""

    def small(self, data: bytes, request: SmallRequest | None) -> pa.RecordBatch | bytes | None:
        process = self._running()
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return super().small(data, request)

    def _running(self) -> Any:
        process = self._process  # it looks alive still
        return super()._running() if process is None else process


def test_a_process_that_something_else_kills_costs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed()
    monkeypatch.setattr(orc_format, "READER", killed)
    for _ in range(2):
        assert [row["id"] for row in read_file("orc", "id BIGINT", GOOD).values] == list(range(10))
    assert killed.asked.count("open") == 2
    killed.close()


def test_damaged_files_are_read_as_in_batches_or_refused_for_the_same_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["Ada", None, "\u00c9mile"] * 20
    table = pa.table({"id": [n * 1_003 for n in range(60)], "name": names, "tags": [["x"], [], ["y", "z"]] * 20})
    whole, rng, ddl = (
        orc_file(table, compression="zlib"),
        random.Random(11),
        "id BIGINT, name STRING, tags ARRAY<STRING>",
    )
    read = dead = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        found, why = attempt(lambda stored=bytes(damaged): read_file("orc", ddl, stored))
        batches, reason = attempt(lambda stored=bytes(damaged): in_batches(monkeypatch, ddl, stored))
        assert (found, why) == (batches, reason)
        read, dead = read + (why is None), dead + (why is not None)
    assert read > 10
    assert dead > 10


def attempt(read: Callable[[], Read]) -> tuple[Read | None, str | None]:
    try:
        return read(), None
    except FileFault as fault:
        return None, fault.reason
