"""Runs of the job pack the history by themselves, once a day, and go on without it."""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from blizzard.cli import main
from blizzard.errors import AccessDenied
from blizzard.history.keeper import HOUR_SECS, HistoryKeeper
from blizzard.history.packer import DAY_SECS, HistorySettings
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit.fakes import Calls, WatchedStore, World, settings
from tests.unit.history_world import FOLDER, HistoryWorld, days
from tests.unit.operator_world import IDENTITY, OperatorWorld
from tests.unit.test_cli_files import files

COMMITS = 33
HISTORY = "_blizzard/events_landing/history/"


def ingested(commits: int) -> World:
    """So many commits of one file each, on one day."""
    world = World(settings(interval_files=1))
    for number in range(commits):
        world.arrive(f"{number:03d}.txt")
    world.drain()
    assert world.state_now().sequence == commits - 1
    return world


def one_more(world: World) -> None:
    world.arrive(f"more{world.state_now().sequence}.txt")
    world.drain()


def packed(world: World) -> list[str]:
    return [info.key for info in world.state.list(HISTORY) if info.key.endswith(".parquet")]


def test_the_first_batch_of_a_day_packs_the_day_before_and_its_commit_names_the_packs() -> None:
    world = ingested(COMMITS)
    world.clock.advance(DAY_SECS)
    one_more(world)
    (event,) = world.events_logged("history_packed")
    assert (event["packs"], event["commits"], event["files"]) == (1, COMMITS, COMMITS)
    assert str(world.state_now().history).startswith(f"{COMMITS - 1:020d}-")
    assert len(packed(world)) == 1
    one_more(world)
    assert len(world.events_logged("history_packed")) == 1


def test_on_the_same_day_and_with_few_commits_nothing_is_packed() -> None:
    world = ingested(COMMITS - 4)
    world.clock.advance(DAY_SECS)
    world.calls.names.clear()
    one_more(world)
    assert not [name for name in world.calls.names if "/history/" in name]
    world = ingested(COMMITS)
    world.calls.names.clear()
    one_more(world)
    assert world.state_now().history is None
    assert not [name for name in world.calls.names if "/history/" in name]


def test_runs_go_on_without_the_history_and_write_it_again_the_next_day() -> None:
    world = ingested(COMMITS)
    world.clock.advance(DAY_SECS)
    one_more(world)
    before = packed(world)
    world.state.delete([info.key for info in world.state.list(HISTORY)])
    one_more(world)
    for number in range(COMMITS):
        world.arrive(f"next{number}.txt")
    world.drain()
    world.clock.advance(DAY_SECS)
    one_more(world)
    assert {*before} < {*packed(world)}
    assert not world.events_logged("history_not_packed")


def test_a_storage_that_refuses_packs_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ingested(COMMITS)
    world.clock.advance(DAY_SECS)
    put = world.state.put

    def refuse(key: str, data: bytes) -> ObjectInfo:
        if "/history/" in key:
            raise AccessDenied("not allowed")
        return put(key, data)

    monkeypatch.setattr(world.state, "put", refuse)
    one_more(world)
    assert [event["error"] for event in world.events_logged("history_not_packed")] == ["not allowed"]
    assert world.state_now().sequence == COMMITS


def waiting_keeper(world: HistoryWorld, gate: threading.Event) -> HistoryKeeper:
    """Its packing waits for the gate."""
    calls = Calls()
    calls.before_named(f"list {FOLDER}", lambda: gate.wait(20))
    return HistoryKeeper(
        WatchedStore(world.store, calls),
        IDENTITY,
        world.packer().commits,
        clock=lambda: world.now_ts + DAY_SECS,
        log=world.record,
        settings=HistorySettings(commits=2, parallel_reads=1),
    )


def test_a_run_does_not_wait_for_packing_before_it_commits_and_owes_a_commit_at_its_end() -> None:
    gate = threading.Event()
    world = days(HistoryWorld(MemoryStore(lambda: 0.0)), 4, 1)
    keeper = waiting_keeper(world, gate)
    keeper.begin(world.checkpoint)
    assert keeper.is_packing()
    assert (keeper.ref(world.checkpoint), keeper.owes_commit(world.checkpoint)) == (None, False)
    gate.set()
    while keeper.is_packing():
        time.sleep(0.01)
    assert keeper.owes_commit(world.checkpoint)
    index = keeper.ref(world.checkpoint)
    named = replace(world.checkpoint, history=index)
    assert (keeper.owes_commit(named), keeper.ref(named)) == (False, index)


def test_only_the_first_batch_of_an_hour_looks() -> None:
    world, calls = days(HistoryWorld(MemoryStore(lambda: 0.0)), 4, 4), Calls()
    hour = world.now_ts // HOUR_SECS * HOUR_SECS
    now = [hour + 1800.0]
    keeper = HistoryKeeper(
        WatchedStore(world.store, calls),
        IDENTITY,
        world.packer().commits,
        clock=lambda: now[0],
        log=world.record,
        settings=replace(world.settings, commits=2),
    )
    committed = replace(world.checkpoint, last_update_ts=hour + 60.0)
    keeper.begin(committed)
    assert calls.names == []
    now[0] += HOUR_SECS
    keeper.begin(committed)
    assert keeper.ref(committed) is not None


def test_packs_of_a_run_that_lost_a_race_are_forgotten() -> None:
    gate = threading.Event()
    gate.set()
    world = days(HistoryWorld(MemoryStore(lambda: 0.0)), 4, 1)
    keeper = waiting_keeper(world, gate)
    keeper.begin(world.checkpoint)
    while keeper.is_packing():
        time.sleep(0.01)
    keeper.forget()
    assert keeper.ref(world.checkpoint) is None


def test_files_of_a_real_table_have_the_same_life_with_and_without_packs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld(tmp_path, {"checkpoint": {"interval_files": 1, "interval_secs": 0}})
    for number in range(COMMITS):
        world.land(f"a/{number}.ndjson.gz", "x", None)
    world.land_bytes("a/torn.ndjson.gz", b"\x1f\x8b")
    world.run()
    before = files(world, capsys)
    clock = SimpleNamespace(time=lambda: time.time() + DAY_SECS, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr("spark_job.wiring.time", clock)
    world.land("b/next.ndjson.gz", "x")
    world.run()
    assert json.loads((tmp_path / "lake" / IDENTITY.copy_key).read_text())["history"]
    for receipt in sorted((world.state / "receipts").iterdir())[:30]:  # the ledger has these files without them
        receipt.unlink()
    after = files(world, capsys)
    assert {path: after[path] for path in before} == before
    assert (after["a/torn.ndjson.gz"]["announced_by"], bool(after["a/torn.ndjson.gz"]["reason"])) == ("sweep", True)
    (pack,) = (world.state / "history").rglob("*.parquet")
    pack.write_bytes(bytes(pack.stat().st_size))
    assert main(["files", str(world.config_file)]) == 0
    assert (
        "cannot be read (ValueError: its content is not that of its name). Nothing is lost: receipts say the same. "
        in (capsys.readouterr().err)
    )
    shutil.rmtree(world.state / "history")
    assert sum(life["announced_by"] is None for life in files(world, capsys).values()) == 30
