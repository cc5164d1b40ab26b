"""A signal ends the comparison of two tables within a source, and nothing is changed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.audit import table_rows
from spark_job.rebuild import compare, held_rows, values
from spark_job.start import EXIT_STOPPED
from tests.unit.rebuild_lake import RebuildLake, told_by_process


@pytest.fixture
def lake(tmp_path: Path) -> RebuildLake:
    """With a data file, and a changed value, of each of three files."""
    made = RebuildLake(tmp_path)
    for name in ("a", "b", "c"):
        made.land(f"{name}.ndjson")
        assert made.run() == 0
    assert made.rebuild_table(swap=False) == 0
    DeltaTable(made.uri("lake")).update(updates={"amount": "99"}, predicate="amount = 1")
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return told_by_process(monkeypatch)


def assert_stopped(lake: RebuildLake, stop: threading.Event, told: list[dict[str, Any]]) -> None:
    before = [DeltaTable(lake.uri(name)).version() for name in ("lake", "new")]
    assert lake.rebuild_table(stop=stop) == EXIT_STOPPED
    assert stop.is_set()
    assert [DeltaTable(lake.uri(name)).version() for name in ("lake", "new")] == before
    assert not any("compared" in each for each in told)


def test_between_data_files_that_are_counted(
    lake: RebuildLake, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_rows, "PART_ROWS", 1)
    stop, counted, count = threading.Event(), list[str](), held_rows.CountRows.__call__

    def then_stop(self: held_rows.CountRows, part: str) -> str:
        counted.append(part)
        stop.set()
        return count(self, part)

    monkeypatch.setattr(held_rows.CountRows, "__call__", then_stop)
    assert_stopped(lake, stop, told)
    assert len(counted) == 1


def test_between_files_that_are_compared(
    lake: RebuildLake, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, compared, compare_file = threading.Event(), list[Any](), compare._compare_file

    def then_stop(*of: Any) -> None:
        compared.append(of)
        stop.set()
        compare_file(*of)

    monkeypatch.setattr(compare, "_compare_file", then_stop)
    assert_stopped(lake, stop, told)
    assert len(compared) == 1


def test_between_batches_of_rows_whose_values_are_compared(
    lake: RebuildLake, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, read, batches = threading.Event(), list[int](), values.DataRows.batches

    def then_stop(self: values.DataRows) -> Iterator[Any]:
        for rows in batches(self):
            read.append(rows.num_rows)
            stop.set()
            yield rows

    monkeypatch.setattr(values.DataRows, "batches", then_stop)
    assert_stopped(lake, stop, told)
    assert len(read) == 1
