"""`blizzard rebuild` on the local disk with the local engine: every row compared, with kills, races and repetitions."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import spark_job.wiring
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from spark_job.rebuild import process
from spark_job.rebuild.compare import Accepted
from tests.unit.fakes import Calls, Crash, WatchedStore, crash
from tests.unit.rebuild_lake import CONFIG, RebuildLake, told_by_process

NEVER = 10_000


@pytest.fixture
def lake(tmp_path: Path) -> RebuildLake:
    made = RebuildLake(tmp_path)
    for name in ("a", "b", "deep/c"):
        made.land(f"{name}.ndjson", bad=name == "b")
    assert made.run() == 0
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return told_by_process(monkeypatch)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Every call of a store counts."""
    counted, opened = Calls(), spark_job.wiring.open_store

    def watched(*args: Any, **kwargs: Any) -> ObjectStore:
        return WatchedStore(opened(*args, **kwargs), counted)

    monkeypatch.setattr(spark_job.wiring, "open_store", watched)
    return counted


def states(lake: RebuildLake) -> int:
    return lake.process().rebuild_states([*lake.config().sources()])


# The state from the table


def test_a_copied_table_is_continued_and_nothing_is_lost_or_doubled(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    lake.copy_rows(without="a.ndjson")
    lake.land("d.ndjson")
    assert lake.run() == 1
    assert states(lake) == 0
    assert (told[0]["found"]["problems"][0]["kind"], told[0]["found"]["read_again"]) == ("txn_lost", 1)
    assert told[1]["rebuilt"]["problems"] == []
    assert lake.run() == 0
    lake.check()
    assert states(lake) == 0
    assert told[-1]["found"]["problems"] == []


def test_a_copied_table_without_any_state_beside_it_is_continued(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    lake.copy_rows()
    shutil.rmtree(lake.folder / "lake/_blizzard")
    lake.land("d.ndjson")
    assert states(lake) == 0
    assert lake.run() == 0
    lake.check()


def test_nothing_is_written_if_nobody_agrees(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    lake.copy_rows()
    before = objects(lake.folder / "lake")
    assert lake.process(agreed=lambda: False).rebuild_states([*lake.config().sources()]) == 2
    assert objects(lake.folder / "lake") == before
    assert [*told[0]] == ["found"]


def objects(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_rebuild_of_the_state_that_is_killed_can_be_repeated(
    lake: RebuildLake, told: list[dict[str, Any]], calls: Calls
) -> None:
    lake.copy_rows(without="b.ndjson")
    lake.land("d.ndjson")
    shutil.copytree(lake.folder / "lake", lake.folder / "kept")
    for call in range(2, NEVER, 7):
        restore(lake)
        calls.before(call, crash)
        try:
            states(lake)
        except Crash:
            assert states(lake) == 0
        else:
            calls.forget()
            break
        calls.forget()
        assert lake.run() == 0
        lake.check()
    assert 10 < call < NEVER - 3


def restore(lake: RebuildLake) -> None:
    """The old table as it was kept, and no other one."""
    shutil.rmtree(lake.folder / "lake")
    shutil.rmtree(lake.folder / "new", ignore_errors=True)
    shutil.copytree(lake.folder / "kept", lake.folder / "lake")
    (lake.folder / "incoming/later.ndjson").unlink(missing_ok=True)
    lake.landed.pop("later.ndjson", None)


# A new table


def test_a_new_table_gets_everything_and_takes_the_place_of_the_old_one(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    assert lake.rebuild_table() == 0
    assert [*told[-1]] == ["swapped"]
    lake.check("new")
    lake.land("later.ndjson")
    events = list[str]()
    assert lake.run(log=lambda event, /, **fields: events.append(f"{event} {fields.get('error', '')}")) == 1
    assert any("change `table_uri` to" in event for event in events)
    lake.check("lake", gone=frozenset({"later.ndjson"}))


def test_without_a_swap_the_old_table_stays_as_it_is(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    before = objects(lake.folder / "lake")
    for _ in range(2):
        assert lake.rebuild_table(swap=False) == 0
    lake.check("new")
    assert objects(lake.folder / "lake") == before


def test_files_that_come_while_somebody_is_asked_are_in_the_new_table(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    """Whether a job with the old configuration ingests them, or not."""

    def agreed() -> bool:
        lake.land("first.ndjson")
        assert lake.run() == 0
        lake.land("second.ndjson")
        return True

    assert lake.rebuild_table(agreed=agreed) == 0
    lake.check("new")
    lake.check("lake", gone=frozenset({"second.ndjson"}))


def test_a_file_that_an_event_announces_meanwhile_is_in_the_new_table_wherever_it_sorts(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    def agreed() -> bool:
        lake.land("0.ndjson")
        found = LocalStore(lake.folder / "incoming").head("0.ndjson")
        assert found is not None
        manifest = Manifest(LocalStore(lake.folder / "lake"), "_blizzard/orders_shop", "orders:shop")
        manifest.append([Entry(found.key, found.size, found.etag, found.modified_ts)], writer_id="w", now_ts=1.0)
        assert lake.run() == 0
        return True

    assert lake.rebuild_table(agreed=agreed) == 0
    lake.check("lake")
    lake.check("new")


def test_a_job_that_reads_a_batch_while_the_table_is_moved_commits_nothing(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    """And one that commits first is not lost."""
    for name in ("x", "y", "z"):
        lake.land(f"{name}.ndjson")
    swapped = list[int]()

    def log(event: str, /, **_: object) -> None:
        if event == "batch_read" and not swapped:  # it is about to commit
            swapped.append(0)
            swapped.append(lake.rebuild_table())

    assert lake.run(log=log) == 1
    assert swapped == [0, 0]
    lake.check("new")
    lake.check("lake", gone=frozenset({"x.ndjson", "y.ndjson", "z.ndjson"}))


def test_a_job_that_commits_just_before_the_move_wins_and_the_move_is_tried_again(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    raced = list[int]()

    def log(event: str, /, **fields: object) -> None:
        is_move = event == "batch_read" and fields["sequence"] == 1 and not fields["files"]
        if is_move and not raced:
            lake.land("racing.ndjson")
            raced.append(lake.run())

    assert lake.rebuild_table(log=log) == 0
    assert raced == [0]
    lake.check("lake")
    lake.check("new")


def test_two_swaps_at_once_are_one(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    others = list[int]()

    def log(event: str, /, **_: object) -> None:
        if event == "batch_read" and not others:
            others.append(lake.rebuild_table())

    assert lake.rebuild_table(log=log) == 0
    assert others == [0]
    lake.check("new")


def test_a_table_that_was_moved_can_take_its_place_back(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    assert lake.rebuild_table() == 0
    lake.file.write_text(lake.text.replace("lake ", "new "))
    lake.land("later.ndjson")
    assert lake.run() == 0
    lake.check("new")
    assert lake.rebuild_table("lake") == 0
    lake.check("lake")
    lake.file.write_text(lake.text)
    lake.land("last.ndjson")
    assert lake.run() == 0
    lake.check("lake")


def test_what_a_table_has_forgotten_that_takes_its_place_back_is_announced_again(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    """A file without rows, of which only the state tells."""
    lake.land("0.ndjson", 0)
    assert lake.run() == 0
    assert lake.rebuild_table() == 0
    shutil.rmtree(lake.folder / "lake" / "_blizzard")
    lake.file.write_text(lake.text.replace("table_uri: lake", "table_uri: new"))
    lake.land("later.ndjson")
    assert lake.rebuild_table("lake") == 0
    lake.check("lake")
    lake.file.write_text(lake.text)
    assert lake.run() == 0


def test_files_of_all_dates_are_in_the_new_table(tmp_path: Path, told: list[dict[str, Any]]) -> None:
    """The first sweep of a source with a window leaves out older folders."""
    window = '        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 2}\n'
    lake = RebuildLake(tmp_path)
    lake.land("date=2020-01-01/a.ndjson")
    assert lake.run() == 0
    lake.file.write_text(lake.text + window)
    assert lake.run() == 0
    assert lake.rebuild_table() == 0
    lake.check("new")
    lake.file.write_text(lake.file.read_text().replace("lake ", "new "))
    lake.land(f"date={datetime.now(UTC):%Y-%m-%d}/b.ndjson")
    assert lake.run() == 0
    lake.check("new")


def test_files_that_the_source_does_not_have_any_more_stop_the_swap(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    (lake.folder / "incoming/a.ndjson").unlink()
    before = objects(lake.folder / "lake")
    assert lake.rebuild_table() == 1
    assert objects(lake.folder / "lake") == before
    assert told[-1]["compared"]["names"] == {"gone": ["a.ndjson"]}
    assert lake.rebuild_table(accepted=Accepted(gone=True)) == 0
    lake.check("new", gone=frozenset({"a.ndjson"}))


def test_a_table_of_something_else_is_not_filled(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    shutil.copytree(lake.folder / "lake", lake.folder / "other")
    lake.file.write_text(lake.text.replace("shop:", "store:"))
    assert lake.rebuild_table("other", swap=False) == 2
    assert "holds rows of something else" in told[-1]["failed"] or "another name" in told[-1]["failed"]
    lake.check("other")


def test_a_new_table_may_have_what_the_old_one_refuses(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    """Such as other partitions: the last commit to the old table is made all the same."""
    lake.file.write_text(lake.text.replace("    engine", "    partition_by: [amount]\n    engine"))
    lake.land("d.ndjson")
    assert lake.run() == 1
    assert lake.rebuild_table() == 0
    assert lake.rebuild_table() == 0


def test_a_table_whose_schema_was_inferred_is_rebuilt_and_moved(tmp_path: Path, told: list[dict[str, Any]]) -> None:
    lake = RebuildLake(tmp_path, CONFIG.replace('"id STRING NOT NULL, amount BIGINT"', "infer"))
    lake.land("a.ndjson")
    assert lake.run() == 0
    lake.copy_rows()
    lake.land("b.ndjson")
    assert states(lake) == 0
    assert lake.run() == 0
    lake.check()
    assert lake.rebuild_table() == 0
    lake.check("new")


def test_a_swap_that_is_killed_after_one_of_two_sources_has_moved_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CONFIG[CONFIG.index("      shop:") :].replace("shop:", "market:").replace("incoming", "incoming2")
    lake = RebuildLake(tmp_path, CONFIG + other)
    (tmp_path / "incoming2").mkdir()
    lake.land("a.ndjson")
    lake.land("../incoming2/b.ndjson")
    lake.landed["b.ndjson"] = lake.landed.pop("../incoming2/b.ndjson")
    assert lake.run() == 0

    def die(**what: Any) -> None:
        if "moved" in what:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(process, "tell", die)
        with pytest.raises(Crash):
            lake.rebuild_table()
    lake.land("c.ndjson")
    lake.land("../incoming2/d.ndjson")
    lake.landed["d.ndjson"] = lake.landed.pop("../incoming2/d.ndjson")
    assert lake.run() == 1
    lake.check("lake", gone=frozenset({"c.ndjson"}))
    assert lake.rebuild_table() == 0
    lake.check("new")
    assert lake.run() == 1


def test_after_a_swap_that_failed_jobs_go_on_in_the_old_table(
    lake: RebuildLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file comes and goes between the question and the move, so only the old table has its rows."""
    whole, moved = process.move, list[str | None]()

    def moves(parts: Any, to: str | None, **more: Any) -> bool:
        if not moved:
            lake.land("late.ndjson")
            assert lake.run() == 0
            (lake.folder / "incoming" / "late.ndjson").unlink()
        moved.append(to)
        return whole(parts, to, **more)

    monkeypatch.setattr(process, "move", moves)
    assert lake.rebuild_table() == 1
    assert moved == [lake.uri("new"), None]
    lake.land("more.ndjson")
    assert lake.run() == 0
    lake.check("lake")


@pytest.mark.parametrize("step", [17])
def test_a_rebuild_and_swap_that_is_killed_can_be_repeated(
    lake: RebuildLake, told: list[dict[str, Any]], calls: Calls, step: int
) -> None:
    """Each time a file comes before it is repeated, and a job with the old configuration tries to ingest it."""
    shutil.copytree(lake.folder / "lake", lake.folder / "kept")
    for call in range(step, NEVER, step):
        restore(lake)
        calls.before(call, crash)
        try:
            lake.rebuild_table()
        except Crash:
            lake.land("later.ndjson")
            lake.run()
        else:
            calls.forget()
            break
        calls.forget()
        assert lake.rebuild_table() == 0
        lake.check("new")
    assert 5 * step < call < NEVER - step
