"""What the local engine holds of the tables of a process: each table once, and together no more files than fit into
memory."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.errors import LostRace
from blizzard.log import silent
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local import open_table
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile


def source_of(folder: Path, name: str = "a") -> TableSource:
    return TableSource(str(folder), f"p:{name}", f"blizzard:p:{name}", "id STRING", {}, ())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of the tables that deltalake has opened, in order."""
    names: list[str] = []

    class Opened(DeltaTable):
        def __init__(self, uri: str, **options: Any) -> None:
            super().__init__(uri, **options)
            names.append(Path(uri).name)

    monkeypatch.setattr(open_table, "DeltaTable", Opened)
    return names


class Process:
    """The sources of one process, each with its own view of its table."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._tables = OpenTables(dict)
        self._sequences: dict[tuple[str, str], int] = {}
        self._sources: dict[tuple[str, str], LocalTable] = {}

    def append(self, name: str, files: int, *, source: str = "a") -> None:
        """A commit of the source to this table, which exists."""
        sequence = self._sequences[name, source] = self._sequences.get((name, source), -1) + 1
        data_files = [DataFile(f"{source}-{sequence}-{n}.parquet", 1, 1, 0.0, {}, "{}") for n in range(files)]
        self.table(name, source).start().commit(
            data_files, app_id=f"blizzard:p:{source}", sequence=sequence, user_metadata=""
        )

    def table(self, name: str, source: str = "a") -> LocalTable:
        if (name, source) not in self._sources:
            wanted, store = source_of(self._lake / name, source), LocalStore(self._lake / name, may_be_missing=True)
            opened = self._tables.at(wanted.table_uri, store)
            self._sources[name, source] = LocalTable(wanted, store, opened, clock=time.time, log=silent)
        return self._sources[name, source]

    def held(self) -> int:
        return self._tables.held_files()


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Process]:
    """Takes the names of the tables to make."""

    def made(*names: str) -> Process:
        for name in names:
            source, store = source_of(tmp_path / name, "first"), LocalStore(tmp_path / name, may_be_missing=True)
            engine = LocalEngine(S3Settings(), dict, silent).table(source)
            DeltaSourceTable(engine, source, store=store).append(None, sequence=0, user_metadata="")
        return Process(tmp_path)

    return made


def test_the_sources_of_a_table_hold_it_once(process: Callable[..., Process], opened: list[str]) -> None:
    one = process("t")
    opened.clear()
    for _ in range(2):
        for source in ("a", "b", "c"):
            one.append("t", 2, source=source)
    assert opened == ["t"]
    assert one.held() == 12
    for source in ("a", "b", "c"):
        assert one.table("t", source).txn_version(f"blizzard:p:{source}") == 1


def test_an_engine_holds_a_table_once(tmp_path: Path, process: Callable[..., Process], opened: list[str]) -> None:
    process("t")
    opened.clear()
    engine = LocalEngine(S3Settings(), dict, silent)
    for name in ("a", "b"):
        assert engine.table(source_of(tmp_path / "t", name)).txn_version("blizzard:p:first") == 0
    assert opened == ["t"]


def test_the_tables_of_a_process_together_hold_no_more_files_than_fit_into_memory(
    process: Callable[..., Process], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were used longest ago make room for another, and come back when they are next used."""
    monkeypatch.setattr(open_table, "MAX_FILES", 5)
    one = process("x", "y", "z")
    for name in ("x", "y"):
        one.append(name, 2)
    assert one.held() == 4
    opened.clear()
    one.append("x", 0)  # so it is not the one that goes
    held = []
    for name, files in (("z", 2), ("z", 0), ("x", 0), ("y", 0)):
        one.append(name, files)
        held.append(one.held())
    assert (max(held), opened) == (4, ["z", "y"])
    assert [DeltaTable(one.table(name)._uri).transaction_version("blizzard:p:a") for name in "xyz"] == [2, 1, 1]


def test_room_is_made_before_a_table_is_opened_whose_checkpoint_tells_how_large_it_is(
    process: Callable[..., Process], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "MAX_FILES", 5)
    one = process("x", "y")
    one.append("y", 3)
    DeltaTable(one.table("y")._uri).create_checkpoint()
    other = Process(one._lake)
    other.append("x", 3)
    whole, held = open_table.DeltaTable, list[int]()

    def opens(*args: Any, **options: Any) -> DeltaTable:
        held.append(other.held())
        return whole(*args, **options)

    monkeypatch.setattr(open_table, "DeltaTable", opens)
    assert other.table("y").txn_version("blizzard:p:a") == 0
    assert (held, other.held()) == ([0], 3)


def test_a_table_that_grows_while_it_is_open_makes_room(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "MAX_FILES", 5)
    one = process("x", "y")
    one.append("x", 2)
    one.append("y", 2)
    one.append("y", 2)
    assert one.table("y").start(newest=False).txn_version("blizzard:p:a") == 1
    assert one.held() == 4


def test_a_commit_whose_table_another_source_has_read_anew_meanwhile_is_a_lost_race(
    process: Callable[..., Process],
) -> None:
    """It has not compared its Txn and its columns with what came in between."""
    one = process("t")
    began = one.table("t").start()
    assert began.txn_version("blizzard:p:a") is None
    Process(one._lake).append("t", 0)
    assert one.table("t", "b").txn_version("blizzard:p:a") == 0
    with pytest.raises(LostRace, match="the commit began at version 0, and the table is at 1 now"):
        began.commit((), app_id="blizzard:p:a", sequence=0, user_metadata="")
    assert DeltaTable(one.table("t")._uri).version() == 1
