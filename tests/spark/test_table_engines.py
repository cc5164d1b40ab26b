"""What a table needs of an engine, tried on each of them, and on both in turn over one table."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import LostRace, PermanentError
from blizzard.ledger.entry import LedgerEntry
from blizzard.state.run_ref import SequenceRange
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import FileVersion
from spark_job.table.delta_table import DeltaSourceTable
from tests.spark.table_world import ALONE, APP_ID, ENGINES, EVERY_WORLD, SCHEMA, World, Written, overtaken_by, world_of

NTZ = (
    "id STRING NOT NULL, n BIGINT, t TIMESTAMP_NTZ, s STRUCT<a: INT NOT NULL, b: ARRAY<STRING>>, "
    "`x.y` DATE COMMENT 'a day'"
)


@pytest.fixture(params=EVERY_WORLD)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return world_of(request, tmp_path)


def described(actions: list[dict[str, Any]]) -> tuple[Any, Any]:
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    protocol = next(action["protocol"] for action in actions if "protocol" in action)
    return (
        {**metadata, "id": "", "createdTime": 0, "schemaString": json.loads(metadata["schemaString"])},
        {name: sorted(value) if isinstance(value, list) else value for name, value in protocol.items()},
    )


# -- one engine


@pytest.mark.spark
@pytest.mark.parametrize("schema", [SCHEMA, NTZ], ids=["simple", "nested"])
@pytest.mark.parametrize("partition_by", [(), ("n",)], ids=["flat", "partitioned"])
def test_all_engines_make_the_same_table(
    tmp_path: Path, spark: Callable[[], SparkSession], schema: str, partition_by: tuple[str, ...]
) -> None:
    made = {}
    for engine in ENGINES:
        world = World(tmp_path / engine, spark, schema=schema, partition_by=partition_by, engine=engine)
        before = world.source().layout()
        world.source().append(None, sequence=0, user_metadata="made")
        assert world.source().layout() == before
        made[engine] = described(world.actions()), before
        assert world.versions() == [0]
    assert made["spark"] == made["local"] == made["auto"]


def test_the_first_commit_holds_table_rows_and_state(world: World) -> None:
    world.append(0, "a", "b")
    assert world.versions() == [0]
    assert world.ids_in_all() == ["a", "b"]
    assert world.txn() == 0
    assert any(action.get("commitInfo", {}).get("userMetadata") == "state 0" for action in world.actions())


def test_commits_of_state_alone_need_no_files(world: World) -> None:
    source = world.source()
    for sequence in range(3):
        source.append(None, sequence=sequence, user_metadata=f"state {sequence}")
    assert (world.versions(), world.txn(), world.ids()) == ([0, 1, 2], 2, [])
    assert {name for action in world.actions() for name in action} == {"commitInfo", "txn"}


def test_a_committed_sequence_is_not_committed_again(world: World) -> None:
    world.append(0, "a")
    world.append(1, "b")
    for sequence in (0, 1):
        with pytest.raises(LostRace, match="sequence 1"):
            world.append(sequence, "again")
    assert (world.versions(), world.ids()) == ([0, 1], ["a", "b"])


def test_missing_columns_are_added_and_others_refused(world: World) -> None:
    world.append(0, "a")
    wider = world.source("partner", schema=f"{SCHEMA}, day DATE, s STRUCT<a: INT, b: ARRAY<STRING>>")
    wider.prepare()
    wider.append(Written([world.write(wider.layout(), "b")], wider.layout()), sequence=0, user_metadata="")
    assert world.read("id", "day", "s") == [("a", None, None), ("b", None, None)]
    with pytest.raises(PermanentError, match="column n: expected string, found bigint"):
        world.source("other", schema="id STRING, n STRING").prepare()


@pytest.mark.spark
def test_all_engines_add_the_first_column_without_a_time_zone(
    tmp_path: Path, spark: Callable[[], SparkSession]
) -> None:
    made = {}
    for engine in ENGINES:
        world = World(tmp_path / engine, spark, engine=engine)
        world.append(0, "a")
        world.schema = f"{SCHEMA}, t TIMESTAMP_NTZ"
        world.append(1, "b")
        assert world.read("id", "t") == [("a", None), ("b", None)]
        numbers = range(len(world.versions()))
        made[engine] = described([action for number in reversed(numbers) for action in world.actions(number)])
    assert made["spark"] == made["local"] == made["auto"]


def test_a_table_that_forgets_txns_is_refused(world: World) -> None:
    world.append(0, "a")
    world.other.set_property("delta.setTransactionRetentionDuration", "interval 1 day")
    with pytest.raises(PermanentError, match="UNSET TBLPROPERTIES"):
        world.append(1, "b")
    assert world.ids() == ["a"]


NAMES = ["plain", "a b", "50%", "a=b", "né", "日本", "a/b", "a#b", "a:b", "q'", "+&", "😀"]


def test_files_of_any_partition_value_are_found_by_both_engines(world: World) -> None:
    world.schema, world.partition_by = f"{SCHEMA}, p STRING", ("p",)
    source = world.source()
    source.append(None, sequence=0, user_metadata="")
    layout = source.layout()
    folders = {name: f"p={hive_escaped(name)}/" for name in NAMES}
    files = [world.write(layout, f"id {name}", p=name, folder=folder) for name, folder in folders.items()]
    nulls = world.write(layout, "id null", p="", folder="p=__HIVE_DEFAULT_PARTITION__/")
    source.append(Written([*files, nulls], layout, source.record_type), sequence=1, user_metadata="")
    expected = {"id null": None, **{f"id {name}": name for name in NAMES}}
    assert dict(world.read("id", "p")) == expected
    assert source.holds_rows()
    assert len(source.files_of_commits(SequenceRange(0, 9))) == len(expected)


def hive_escaped(value: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in "\"#%'*/:=?\\{[]^\x7f" else char for char in value)


# -- races, within an engine and between two


RIVALS = [
    (ALONE, "local"),
    *(pytest.param(ours, theirs, marks=pytest.mark.spark) for ours in ENGINES for theirs in ENGINES),
]


@pytest.mark.parametrize(("world", "other"), RIVALS, indirect=["world"])
def test_one_of_two_concurrent_commits_of_a_source_wins(world: World, other: str) -> None:
    world.append(0, "a")
    slow = world.source()
    overtaken_by(slow, lambda: world.append(1, "fast", table=world.source(engine=other)))
    with pytest.raises(LostRace):
        world.append(1, "slow", table=slow)
    assert (world.versions(), world.ids(), world.txn()) == ([0, 1], ["a", "fast"], 1)


@pytest.mark.parametrize(("world", "other"), RIVALS, indirect=["world"])
def test_concurrent_commits_of_two_sources_both_win(world: World, other: str) -> None:
    world.append(0, "a")
    slow = world.source()
    overtaken_by(slow, lambda: world.append(5, "theirs", table=world.source("partner", engine=other)))
    world.append(1, "ours", table=slow)
    assert world.ids_in_all() == ["a", "ours", "theirs"]
    assert (world.txn(), world.txn("blizzard:events:partner")) == (1, 5)


@pytest.mark.parametrize(("world", "other"), RIVALS, indirect=["world"])
def test_one_of_two_concurrent_commits_that_make_the_table_wins(world: World, other: str) -> None:
    slow = world.source()
    overtaken_by(slow, lambda: world.append(0, "fast", table=world.source(engine=other)))
    with pytest.raises(LostRace):
        world.append(0, "slow", table=slow)
    assert (world.versions(), world.ids()) == ([0], ["fast"])


def test_changes_of_other_rows_are_no_conflict(world: World) -> None:
    world.append(0, "a", "b")
    world.append(1, "c")
    slow = world.source()

    def others() -> None:
        world.other.optimize()
        world.other.delete("id = 'a'")
        world.other.insert("theirs")

    overtaken_by(slow, others)
    world.append(2, "ours", table=slow)
    assert world.ids_in_all() == ["b", "c", "ours", "theirs"]
    assert world.versions() == [0, 1, 2, 3, 4, 5]


# -- a long life


def test_a_checkpoint_keeps_the_txns_of_all_sources(world: World) -> None:
    source, partner = world.source(), world.source("partner")
    partner.append(None, sequence=7, user_metadata="")
    for sequence in range(11):
        world.append(sequence, f"{sequence:02d}", table=source)
    log = world.table / "_delta_log"
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 10
    assert [version for version in range(12) if source.checkpoints_at(version)] == [10]
    for file in [*log.glob("*.crc"), *(log / f"{version:020d}.json" for version in range(10))]:
        file.unlink()
    world.other.forget()
    for engine in world.engines:
        table = world.source(engine=engine)
        assert table.txn_version(APP_ID) == 10
        assert {txn.app_id: txn.version for txn in table.txns()} == {APP_ID: 10, "blizzard:events:partner": 7}
    with pytest.raises(LostRace, match="sequence 10"):
        world.append(10, "again")
    world.append(11, "11")
    assert world.ids_in_all() == [f"{n:02d}" for n in range(12)]


@pytest.mark.spark
@pytest.mark.parametrize("form", ["classic", "v2"])
def test_the_engines_take_turns_on_one_table(tmp_path: Path, spark: Callable[[], SparkSession], form: str) -> None:
    world = World(tmp_path, spark)
    world.append(0, "00")
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    if form == "v2":
        world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    tables = {"spark": world.source(), "local": world.source(engine="local")}
    checkpointed, refused, known = Counter[str](), 0, set[Path]()
    for sequence, engine in zip(range(1, 15), cycle(tables), strict=False):
        try:
            world.append(sequence, f"{sequence:02d}", table=tables[engine])
        except NeedsSpark:
            refused += 1
            world.append(sequence, f"{sequence:02d}", table=world.source())
        found = {*(world.table / "_delta_log").glob("*.checkpoint.*")}
        checkpointed[engine] += bool(found - known)
        known = found
    assert refused == (7 if form == "v2" else 0)
    assert all(checkpointed[engine] >= 2 for engine in tables)
    assert world.ids_in_spark() == [f"{n:02d}" for n in range(15)]
    assert {txn.app_id: txn.version for txn in world.source(engine="spark").txns()} == {APP_ID: 14}


def remade(world: World, source: DeltaSourceTable, commits: int) -> None:
    shutil.rmtree(world.table)
    world.other.forget()
    for sequence in range(commits):
        world.append(sequence, f"new {sequence}", table=world.source("partner"))


@pytest.mark.parametrize("commits", [1, 3, 6])
def test_a_table_that_was_dropped_and_made_anew_has_no_gap(world: World, commits: int) -> None:
    """With fewer versions than the process has seen, with as many, and with more."""
    source = world.source()
    for sequence in range(3):
        world.append(sequence, f"old {sequence}", table=source)
    remade(world, source, commits)
    world.append(0, "mine", table=source)
    assert world.versions() == [*range(commits + 1)]
    assert world.ids() == ["mine", *(f"new {n}" for n in range(commits))]


# -- rows


def test_files_of_commits_are_found_in_the_rows(world: World) -> None:
    source = world.source()
    assert not source.holds_rows()
    layout = source.layout()
    source.append(Written([world.write(layout, "a", "b")], layout, source.record_type), sequence=0, user_metadata="")
    assert source.holds_rows()
    assert not world.source("partner").holds_rows()
    (entry,) = source.files_of_commits(SequenceRange(0, 3))
    assert entry == LedgerEntry("f1", 0, "e", 0, entry.time_ms, 2, 0, entry.state)
    assert entry.time_ms > 0
    assert [*source.files_of_commits(SequenceRange(1, 3))] == []
    assert dict(source.last_rows_after(-1)) == {FileVersion("f1", "e"): 0}
    present = {name: {*source.rows_present({name: (0, 7)}).items()} for name in ("f1", "f2")}
    assert present == {"f1": {(FileVersion("f1", "e"), frozenset({0}))}, "f2": set()}
    assert dict(source.rows_present({"f1": ()})) == {FileVersion("f1", "e"): frozenset()}
    assert not source.holds_rows_of_nobody()
    world.other.delete("id = 'a'")
    assert source.files_of_commits(SequenceRange(0, 0))[0].rows == 1
    world.other.delete()
    assert not source.holds_rows()


@pytest.mark.spark
@pytest.mark.parametrize("partition_by", [(), ("day",)], ids=["flat", "partitioned"])
def test_rows_of_overwritten_files_are_replaced_and_all_others_stay(
    tmp_path: Path, spark: Callable[[], SparkSession], partition_by: tuple[str, ...]
) -> None:
    world = World(tmp_path, spark)
    world.schema, world.partition_by = f"{SCHEMA}, day STRING", partition_by
    source, partner = world.source(), world.source("partner", schema=f"{SCHEMA}, day STRING, more INT")
    layout = source.layout()
    file = world.write(layout, "a", "b", day="1", folder="day=1/" if partition_by else "")
    source.append(Written([file], layout, source.record_type), sequence=0, user_metadata="")
    partner.prepare()
    partner.append(None, sequence=0, user_metadata="")
    staged = source.layout(staged=True)
    new = world.write(staged, "c", of="f1", day="2")
    source.replace(Written([new], staged, source.record_type), ["f1"], sequence=1, user_metadata="replaced")
    assert world.ids_in_all() == ["c"]
    assert world.sql("SELECT id, n, day, more, _source.file FROM {t}") == [("c", 0, "2", None, "f1")]
    assert world.txn() == 1
    with pytest.raises(LostRace):
        source.append(None, sequence=1, user_metadata="again")


@pytest.mark.spark
def test_other_rows_of_the_same_data_file_survive_a_replacement(
    tmp_path: Path, spark: Callable[[], SparkSession]
) -> None:
    world = World(tmp_path, spark)
    source = world.source()
    layout = source.layout()
    files = [world.write(layout, f"{n}") for n in range(4)]
    source.append(Written(files, layout, source.record_type), sequence=0, user_metadata="")
    world.sql("OPTIMIZE {t}")
    staged = source.layout(staged=True)
    new = world.write(staged, "new", of="f2")
    source.replace(Written([new], staged, source.record_type), ["f2", "f3"], sequence=1, user_metadata="replaced")
    assert world.ids_in_all() == ["0", "3", "new"]
    assert world.sql("SELECT count(*) FROM {t} WHERE id = '3'") == [(1,)]


@pytest.mark.spark
def test_timestamps_that_spark_has_written_survive_a_replacement(
    tmp_path: Path, spark: Callable[[], SparkSession]
) -> None:
    """Of any year: Spark writes INT96, which other readers take for nanoseconds."""
    world = World(tmp_path, spark)
    world.schema = "id STRING NOT NULL, n BIGINT, t TIMESTAMP"
    source = world.source()
    layout = source.layout()
    years = {f"{year:04d}": datetime(year, 1, 2, 3, 4, 5, 6, tzinfo=UTC) for year in (1, 1600, 2026, 9999)}
    files = [world.write(layout, name, t=moment) for name, moment in years.items()]
    source.append(Written(files, layout, source.record_type), sequence=0, user_metadata="")
    world.sql("OPTIMIZE {t}")
    staged = source.layout(staged=True)
    new = world.write(staged, "new", of="f1", t=years["2026"])
    source.replace(Written([new], staged, source.record_type), ["f1"], sequence=1, user_metadata="replaced")
    found = world.sql("SELECT id, unix_micros(t) FROM {t}")
    micros = {
        name: (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for name, moment in years.items()
    }
    assert {row[0]: row[1] for row in found} == {
        "new": micros["2026"],
        **{n: m for n, m in micros.items() if n != "0001"},
    }
