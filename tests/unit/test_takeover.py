"""Taking over a table of the first Blizzard: which of its states counts, and what is refused."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import RecoveryError
from blizzard.state.checkpoint import FINISHED
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.delta_log import Commit
from spark_job.loop.files.takeover import newest_legacy
from spark_job.ports.source import Recovered
from spark_job.ports.table import Txn
from tests.unit.fakes import World
from tests.unit.recoveries import recovered


def legacy_app_id(document: dict[str, object]) -> str:
    return "blizzard:" + base64.b64encode(json.dumps(document).encode()).decode()


def put_file(world: World, **document: object) -> None:
    """The first Blizzard's own file, where the copy is now."""
    world.state.put(world.identity.copy_key, json.dumps({"schema_version": 1, **document}).encode())


IN_APP_ID = legacy_app_id(
    {"schema_version": 1, "source_state": {"files": {"p/m.txt": "Finished", "p/n.txt": {"RecordsRead": 5}}}}
    | {"delta_version": 7}
)
PENGUINS = legacy_app_id(
    {"schema_version": 2, "source_state": {"files": {}}, "delta_version": 9}
    | {"watermark": {"state": "Active", "value": "p/01926abc.parquet"}}
)
FIRST_PARQUET = "01926abd-def0-7123-8567-89abcdef0123.parquet"
MARKS: dict[str, object] = {
    "watermark": {"state": "Active", "value": "p/m.txt"},
    "partition_watermarks": {"p": "m.txt"},
    "last_update_ts": 5000,
}


def test_files_in_an_app_id_are_taken_over_and_older_ones_count_as_ingested() -> None:
    world = World()
    older = legacy_app_id({"schema_version": 1, "source_state": {"files": {}}, "delta_version": 0})
    world.delta.commits = [Commit(1, {older: 1}, None, 10.0)]
    world.delta.commits += [Commit(2, {IN_APP_ID: 2}, None, 20.5), Commit(3, {}, None, 30.0)]
    state = recovered(world).checkpoint
    assert (state.sequence, dict(state.files)) == (-1, {"p/m.txt": FINISHED, "p/n.txt": 5})
    assert state.late_swept_ts == 21 + 86_400
    assert world.events_logged("state_taken_over")[0]["tracked_files"] == 2


@pytest.mark.parametrize("txn", [PENGUINS, "penguin-events", "penguin-events-backfill"])
def test_if_penguin_committed_the_file_beside_the_table_is_taken_over(txn: str) -> None:
    world = World()
    world.delta.commits = [
        Commit(0, {}, None, 1.0),
        Commit(1, {IN_APP_ID: 1}, None, 2.0),
        Commit(2, {txn: 1}, None, 9.0),
    ]
    put_file(world, **MARKS)
    state = recovered(world).checkpoint
    assert (state.sequence, dict(state.partition_watermarks), dict(state.files)) == (-1, {"p": "m.txt"}, {})
    assert state.late_swept_ts == 5001 + 86_400
    assert world.events_logged("state_taken_over")[0]["watermark"] == "p/m.txt"


@pytest.mark.parametrize("txn", [IN_APP_ID, PENGUINS])
def test_a_legacy_txn_is_found_however_old_it_is(txn: str) -> None:
    world = World()
    world.delta.commits = [Commit(0, {txn: 1}, None, 2.0), *(Commit(n, {}, None, None) for n in range(1, 50))]
    put_file(world, **MARKS)
    assert recovered(world, scan_commits=10).checkpoint.has_files


def test_of_several_legacy_txns_the_newest_counts() -> None:
    world = World()
    older = legacy_app_id({"schema_version": 1, "source_state": {"files": {"p/a.txt": "Finished"}}, "delta_version": 0})
    world.delta.commits = [Commit(0, {older: 1}, None, 2.0), Commit(1, {IN_APP_ID: 2}, None, 3.0)]
    world.delta.commits += [Commit(2, {"other writer": 1}, None, 4.0)]
    assert set(recovered(world, scan_commits=1).checkpoint.files) == {"p/m.txt", "p/n.txt"}


def state_of(version: int, **documents: object) -> str:
    """That of the first Blizzard's commit on this version of the table: one more file than on the version before."""
    files = {f"p/{number}.txt": "Finished" for number in range(version + 1)}
    return legacy_app_id({"schema_version": 1, "source_state": {"files": files}, "delta_version": version, **documents})


@given(
    st.permutations([(state_of(version), version) for version in range(4)]),
    st.sampled_from(["one time for all", "a clock that runs back", "no times"]),
    st.booleans(),
)
def test_legacy_txns_are_ordered_by_table_version_and_not_by_time(
    txns: list[tuple[str, int]], clock: str, restarted: bool
) -> None:
    times = {"one time for all": [5.0] * 4, "a clock that runs back": [9.0, 8.0, 7.0, 6.0], "no times": [None] * 4}
    numbers = [7, 8, 1, 2] if restarted else [1, 2, 3, 4]
    found = newest_legacy([Txn(app_id, numbers[n], times[clock][n]) for app_id, n in txns], World().identity)
    assert found is not None
    assert len(found.state.files) == 4


@pytest.mark.parametrize(("penguins_ts", "knows"), [(4.0, True), (5.0, False), (6.0, False), (None, False)])
def test_a_penguin_txn_without_a_version_counts_unless_it_is_certainly_older(
    penguins_ts: float | None, knows: bool
) -> None:
    """It knows no files, so that nothing is taken over without the file that does."""
    txns = [Txn(state_of(3), 1, 5.0), Txn("penguin-events", 9, penguins_ts)]
    for order in (txns, txns[::-1]):
        found = newest_legacy(order, World().identity)
        assert found is not None
        assert found.state.has_files == knows


def test_a_penguin_txn_counts_if_the_state_has_no_time() -> None:
    found = newest_legacy([Txn("penguin-events", 1, 5.0), Txn(state_of(3), 1, None)], World().identity)
    assert found is not None
    assert not found.state.has_files


@pytest.mark.parametrize(
    ("file", "found"),
    [
        (None, "none that can be read"),
        ({"watermark": "p/m.txt", "last_update_ts": 5}, "one for all, 'p/m.txt'"),
        ({"schema_version": 7}, "none that can be read"),
        ({"schema_version": 2, **MARKS}, "none that can be read"),
    ],
    ids=str,
)
@pytest.mark.parametrize("txn", [PENGUINS, "penguin-events"])
def test_a_takeover_without_a_watermark_for_each_partition_is_refused(
    txn: str, file: dict[str, object] | None, found: str
) -> None:
    world = World()
    world.delta.commits = [Commit(0, {txn: 1}, None, 2.0)]
    if file is not None:
        put_file(world, **file)
    with pytest.raises(RecoveryError, match=f"landing_checkpoint.json, found {found}.*would double its rows"):
        recovered(world)


def test_a_legacy_file_without_a_legacy_txn_is_refused() -> None:
    world = World()
    put_file(world, **MARKS)
    with pytest.raises(RecoveryError, match=r"no Txn of the first Blizzard or of Penguin.*remove that file"):
        recovered(world)


def test_a_takeover_before_penguin_has_committed_everything_is_refused() -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0)]
    world.delta.orphan_files = [f"p/{FIRST_PARQUET}", FIRST_PARQUET, "p/part-01926abd.snappy.parquet"]
    put_file(world, **MARKS)
    with pytest.raises(RecoveryError, match=r"^2 Parquet files .* are in no commit, the first is 'p/01926abd-"):
        recovered(world)


@pytest.mark.parametrize("watermark", [None, {"state": "Initial"}], ids=str)
def test_a_legacy_file_that_says_nothing_was_ingested_is_a_fresh_start(watermark: object) -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0)]
    put_file(world, watermark=watermark)
    assert recovered(world) == Recovered(world.unknown())


@pytest.mark.parametrize("scan_commits", [100, 1])
@pytest.mark.parametrize("first", ["blizzard:events:first", "blizzard:others:landing"])
def test_a_source_added_after_a_takeover_starts_fresh(first: str, scan_commits: int) -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, 2.0), Commit(1, {first: 0}, None, 3.0)]
    world.delta.commits.append(Commit(2, {"other writer": 1}, None, 3.0))
    assert recovered(world, scan_commits=scan_commits) == Recovered(world.unknown())


def test_a_source_without_its_legacy_file_is_refused_even_if_others_had_theirs() -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0), Commit(1, {"blizzard:events:first": 0}, None, 3.0)]
    with pytest.raises(RecoveryError, match=r'put \{"watermark": null\} into that file'):
        recovered(world)


def test_a_legacy_state_without_any_time_is_refused() -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, None)]
    with pytest.raises(RecoveryError, match="has no time, and the log has none"):
        recovered(world)


def test_a_legacy_state_is_ignored_once_there_is_one_of_this_program() -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, 2.0)]
    world.arrive("p/z.txt")
    world.drain()
    world.delta.commits.append(Commit(len(world.delta.commits), {IN_APP_ID: 2}, None, None))
    assert recovered(world).checkpoint == world.state_now()
    assert world.state_now().sequence >= 0
    assert read_copy(world.state, world.identity) == world.state_now()
