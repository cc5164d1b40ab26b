"""The records of a task: numbers, codecs, limits, durations."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectReader, ObjectWriter
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.formats.protocol import Limits
from spark_job.tasks.fetch import TaskFile
from tests.unit.contents import zstd
from tests.unit.fakes import Clock
from tests.unit.task_world import MIB, NOW_TS, Task, a_store, files_of, numbered, peak_bytes, read, read_one

# --- Records and their numbers ---


def test_a_record_has_its_file_row_number_etag_time_and_partition_values() -> None:
    store = a_store(**{"date=2024-01-28__a.ndjson": b'{"n": 0}\n{"n": 1}\n'})
    info = next(store.list())
    found = read(store, [TaskFile(info.key, info.size, partitions=("2024-01-28", None))])
    second = found.records[1]
    assert (second["file"], second["row"], second["etag"], second["line"]) == (info.key, 1, info.etag, '{"n": 1}')
    assert second["modified"].timestamp() == NOW_TS
    assert (second["partition_0"], second["partition_1"]) == ("2024-01-28", None)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'{"n": 0}\n{"n": 1}\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\n{"n": 1}', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\r\n{"n": 1}\r\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b'{"n": 0}\r\n{"n": 1}\r', [(0, '{"n": 0}'), (1, '{"n": 1}\r')]),
        (b'{"n": 0}\r\n\r', [(0, '{"n": 0}')]),
        (b'\xef\xbb\xbf{"n": 0}\n', [(0, '{"n": 0}')]),
        (b'\n{"n": 0}\n \t\r\n\n{"n": 1}\n\n', [(0, '{"n": 0}'), (1, '{"n": 1}')]),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_blank_lines_of_ndjson_are_not_records_and_not_counted(body: bytes, rows: list[tuple[int, str]]) -> None:
    found = read_one(body)
    assert [(record["row"], record["line"]) for record in found.records] == rows
    assert found.outcome.error is None
    assert found.outcome.records_read == len(rows)


def test_blank_lines_of_text_are_records() -> None:
    found = read_one(b"\xef\xbb\xbffirst\n\n  \nno { json\r\n", format="text")
    assert [(record["row"], record["line"]) for record in found.records] == [
        (0, "first"),
        (1, ""),
        (2, "  "),
        (3, "no { json"),
    ]


def test_an_empty_file_is_finished_with_no_rows() -> None:
    outcome = read_one(b"").outcome
    assert (outcome.rows, outcome.finished, outcome.error) == (0, True, None)


# --- Codecs ---


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("a.ndjson", numbered(3)),
        ("a.ndjson.gz", gzip.compress(numbered(3))),
        ("a.ndjson.zst", zstd(numbered(3))),
        ("members.ndjson.gz", gzip.compress(b'{"n": 0, "pad": ""}\n{"n": ') + gzip.compress(numbered(3)[26:])),
    ],
)
def test_a_compressed_file_gives_the_records_of_a_plain_one(path: str, body: bytes) -> None:
    assert read_one(body, path).lines == numbered(3).decode().splitlines()


@pytest.mark.parametrize(
    ("path", "body", "stage", "reason"),
    [
        ("a.gz", gzip.compress(numbered(9))[:-3], Stage.DECOMPRESS, "truncated gzip"),
        ("a.gz", numbered(9), Stage.DECOMPRESS, "not valid gzip"),
        ("a.gz", gzip.compress(numbered(9)) + b"and more", Stage.DECOMPRESS, "or other bytes follow it"),
        ("a.zst", zstd(numbered(9))[:-3], Stage.DECOMPRESS, "zstd"),
        ("a.zst", gzip.compress(numbered(9)), Stage.DECOMPRESS, "not valid zstd"),
        ("a.ndjson", gzip.compress(numbered(9)), Stage.PARSE, "not UTF-8"),
        ("a.ndjson", b'{"n": 0}\n{"n": "\xe9"}\n', Stage.PARSE, "not UTF-8: line 1 at byte 7"),
    ],
)
def test_a_broken_file_has_a_stage_and_a_reason(path: str, body: bytes, stage: Stage, reason: str) -> None:
    outcome = read_one(body, path).outcome
    assert outcome.stage is stage
    assert reason in str(outcome.error)
    assert (outcome.finished, outcome.failure_kind) == (True, None)


def test_a_line_of_text_that_is_not_utf8_is_refused_alone_and_keeps_its_bytes() -> None:
    found = read_one(b"good\nna\xefve\n\xff\xfe\n", format="text")
    assert [record["line"] for record in found.records] == ["good", None, None]
    assert [record["undecodable"] for record in found.records] == [None, b"na\xefve", b"\xff\xfe"]
    assert "not UTF-8 at byte 2" in found.records[1]["fault"]
    assert found.outcome.error is None


# --- Durations ---


class SlowStore(MemoryStore):
    """Opening an object takes a second, and writing one as long as `write_secs`."""

    def __init__(self, clock: Clock, write_secs: float) -> None:
        super().__init__(lambda: NOW_TS)
        self._clock = clock
        self._write_secs = write_secs

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        self._clock.advance(1.0)
        with super().open(key) as reader:
            yield reader

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self._clock.advance(self._write_secs)
        with super().writer(key) as writer:
            yield writer


def test_a_report_has_the_duration_of_the_task_and_of_its_writing() -> None:
    clock = Clock(0.0)
    store = SlowStore(clock, 8.0)
    for name in ("a", "b"):
        store.put(f"{name}.ndjson", numbered(3))
    found = Task(store, settings={"format": "text"}, remote=False, monotonic=clock, table=SlowStore(clock, 8.0))
    report = found.read(files_of(store)).report
    assert (report.secs, report.write_secs) == (10.0, 8.0)


# --- Limits ---


def test_a_line_of_100_mb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    with (landing / "long.ndjson").open("wb") as file:
        file.write(b'{"n": 0}\n{"long": "')
        file.writelines(b"x" * MIB for _ in range(100))
        file.write(b'"}\n')
    peak, report = peak_bytes(LocalStore(landing), LocalStore(tmp_path / "table"))
    (outcome,) = report.outcomes
    assert "max_record_bytes" in str(outcome.error)
    assert outcome.stage is Stage.PARSE
    assert peak < 64 * MIB


def test_a_decompression_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    with gzip.open(landing / "bomb.ndjson.gz", "wb", compresslevel=1) as file:
        file.writelines(bytes(MIB) for _ in range(200))
    peak, report = peak_bytes(LocalStore(landing), LocalStore(tmp_path / "table"))
    (outcome,) = report.outcomes
    assert "max_record_bytes" in str(outcome.error)
    assert peak < 64 * MIB


def test_a_file_above_its_limit_is_refused() -> None:
    outcome = read_one(gzip.compress(numbered(1000)), "a.gz", limits=Limits(max_file_bytes=10_000)).outcome
    assert outcome.stage is Stage.DECOMPRESS
    assert "max_file_bytes" in str(outcome.error)
