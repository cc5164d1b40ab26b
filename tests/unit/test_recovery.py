"""From what the table holds to the state to go on from: every case, and what must never be mistaken for it."""

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import LostRace, RecoveryError
from blizzard.state.checkpoint import FINISHED, Checkpoint, encode
from blizzard.state.delta_log import Commit
from blizzard.state.identity import Identity, read_copy
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.loop.files.recovery import recover
from spark_job.loop.files.takeover import newest_legacy
from spark_job.ports.source import Recovered
from spark_job.ports.table import Txn
from tests.unit.fakes import Days, Row, World, settings


def recovered(world: World, *, scan_commits: int = 100) -> Recovered[Checkpoint]:
    rules = world.settings.rules
    return recover(
        world.table(),
        world.state,
        world.identity,
        folder_of=rules.folder_of,
        slice_threshold_bytes=rules.interval_bytes,
        sizes=FileSizes(world.source),
        log=lambda event, /, **fields: world.log.append((event, fields)),
        scan_commits=scan_commits,
    )


def three_commits(**more: int) -> World:
    """Sequences 0 to 2 in the versions 1 to 3, a file in each."""
    world = World(settings(**more))  # type: ignore[arg-type]
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
        world.drain()
    return world


# -- The state is there


def test_an_empty_table_is_a_fresh_start() -> None:
    world = World()
    assert recovered(world) == Recovered(world.unknown())


def test_a_table_of_other_sources_is_a_fresh_start() -> None:
    world = three_commits()
    world.identity = Identity("events", "other", "_blizzard/events_other")
    assert recovered(world) == Recovered(world.unknown())


def test_the_newest_commit_has_the_state() -> None:
    world = three_commits()
    found = recovered(world)
    assert (found.checkpoint, found.repaired, found.unpublished) == (world.state_now(), False, False)


def test_commits_of_others_in_between_are_passed_over() -> None:
    world = three_commits()
    for version in range(4, 50):
        world.delta.commits.append(Commit(version, {"blizzard:events:other": version}, "{}", None))
    assert recovered(world).checkpoint.sequence == 2


def test_a_state_older_than_the_scan_is_found_in_the_copy() -> None:
    world = three_commits()
    world.delta.commits += [Commit(version, {}, None, None) for version in range(4, 50)]
    found = recovered(world, scan_commits=10)
    assert (found.checkpoint, found.repaired) == (world.state_now(), False)


@pytest.mark.parametrize("copy", ["older", "gone", "torn"])
def test_a_copy_that_is_not_current_is_reported_so_that_it_gets_published(copy: str) -> None:
    world = three_commits()
    texts = {"older": encode(world.states()[0]), "torn": "{"}
    if copy == "gone":
        world.forget_copy()
    else:
        world.state.put(world.identity.copy_key, texts[copy].encode())
    found = recovered(world)
    assert (found.checkpoint.sequence, found.repaired, found.unpublished) == (2, False, True)


def test_a_copy_of_another_source_is_no_copy() -> None:
    world = three_commits()
    foreign = encode(replace(world.state_now(), source="other"))
    world.state.put(world.identity.copy_key, foreign.encode())
    assert read_copy(world.state, world.identity) is None


# -- The state is unreadable


@pytest.mark.parametrize("text", [None, "", "{torn", "[]", '{"schema_version": 99}'])
def test_the_copy_stands_in_for_an_unreadable_newest_commit(text: str | None) -> None:
    world = three_commits()
    state = world.state_now()
    world.delta.spoil(3, text)
    assert recovered(world) == Recovered(state)


def test_an_older_state_is_repaired_by_what_the_newer_commits_hold() -> None:
    world = three_commits()
    world.delta.spoil(3)
    world.forget_copy()
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert dict(found.checkpoint.files) == dict.fromkeys(["a.txt", "b.txt", "c.txt"], FINISHED)
    assert found.checkpoint.position == world.states()[1].position


def test_a_state_of_another_sequence_is_not_taken_for_the_commit_s_own() -> None:
    world = three_commits()
    world.delta.spoil(3, encode(world.states()[1]))
    world.forget_copy()
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert "c.txt" in found.checkpoint.files


def test_an_older_copy_is_never_resumed_as_if_it_were_current() -> None:
    world = three_commits()
    for version in (1, 2, 3):
        world.delta.spoil(version)
    world.state.put(world.identity.copy_key, encode(world.states()[0]).encode())
    found = recovered(world)
    assert (found.repaired, found.checkpoint.sequence) == (True, 2)
    assert set(found.checkpoint.files) == {"a.txt", "b.txt", "c.txt"}


def test_without_any_readable_state_everything_is_taken_from_the_rows() -> None:
    world = three_commits()
    for version in (1, 2, 3):
        world.delta.spoil(version)
    world.forget_copy()
    found = recovered(world)
    assert (found.checkpoint.sequence, set(found.checkpoint.files)) == (2, {"a.txt", "b.txt", "c.txt"})
    assert world.events_logged("state_repaired")[0]["from_sequence"] is None


def test_a_repair_says_what_it_begins_before_it_asks_storage() -> None:
    world = three_commits()
    world.delta.spoil(3)
    world.forget_copy()
    world.source = AskedStore(world.source)
    world.source.before_head = lambda: world.log.append(("asked", {}))
    recovered(world)
    events = [event for event, _ in world.log]
    assert events[-3:] == ["repair_began", "asked", "state_repaired"]
    said = world.events_logged("repair_began")[0]
    assert (said["from_sequence"], said["to_sequence"], said["files"]) == (1, 2, 1)


class AskedStore(MemoryStore):
    """The objects of another store, and how many were listed and asked for."""

    def __init__(self, objects: MemoryStore) -> None:
        super().__init__(lambda: 0.0)
        self._objects, self._keys = objects._objects, objects._keys
        self.listed = self.heads = 0
        self.before_head = lambda: None
        self._counting = threading.Lock()

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        inner = MemoryStore(lambda: 0.0)
        inner._objects, inner._keys = self._objects, self._keys
        for info in inner.list(prefix, start_after=start_after, recursive=recursive):
            self.listed += 1
            yield info

    def head(self, key: str) -> ObjectInfo | None:
        self.before_head()
        with self._counting:
            self.heads += 1
        return super().head(key)


names = st.integers(0, 400).map(lambda n: f"{n:03}")
folders = st.sampled_from(["", "a/", "a/b/", "c/"])
paths = st.builds(str.__add__, folders, names)


@given(
    there=st.sets(paths, max_size=40),
    crowded=st.sets(folders),
    wanted=st.sets(paths, max_size=60),
)
def test_sizes_are_those_of_the_files_that_are_there_however_they_are_found(
    there: set[str], crowded: set[str], wanted: set[str]
) -> None:
    objects = MemoryStore(lambda: 0.0)
    for path in there | {f"{folder}{n:03}-" for folder in crowded for n in range(400)}:
        objects.put(path, b"x" * (len(path) + int(path[-3:-1], 36)))
    expected = {path: info.size for path in wanted if (info := objects.head(path)) is not None}
    assert dict(FileSizes(objects)(wanted)) == expected


def objects_of(count: int, prefix: str = "") -> MemoryStore:
    store = MemoryStore(lambda: 0.0)
    for n in range(count):
        store.put(f"{prefix}{n:05}", b"x")
    return store


def test_the_sizes_of_a_whole_folder_take_a_listing_and_one_request() -> None:
    store = AskedStore(objects_of(500, "day=1/"))
    assert len(FileSizes(store)(f"day=1/{n:05}" for n in range(500))) == 500
    assert (store.heads, store.listed) == (1, 499)


def test_a_few_files_among_many_others_are_asked_for_beside_each_other() -> None:
    store = AskedStore(objects_of(5000))
    together = threading.Barrier(11)
    store.before_head = lambda: together.wait(timeout=30)
    assert len(FileSizes(store)(f"{n:05}" for n in range(0, 5000, 455))) == 11
    assert store.heads == 11
    assert store.listed <= 11 * 31


def test_a_txn_that_only_the_snapshot_knows_is_the_truth_too() -> None:
    world = three_commits()
    world.delta.commits += [Commit(version, {}, None, None) for version in range(4, 50)]
    world.forget_copy()
    found = recovered(world, scan_commits=10)
    assert (found.repaired, found.checkpoint.sequence, len(found.checkpoint.files)) == (True, 2, 3)


def test_rows_of_other_sources_are_no_part_of_a_repair() -> None:
    world = three_commits()
    world.delta.rows.append(Row("events:other", "foreign.txt", 0, "e", "x", 9))
    world.delta.spoil(3)
    world.forget_copy()
    assert "foreign.txt" not in recovered(world).checkpoint.files


def test_what_a_watermark_has_passed_already_is_not_tracked_by_a_repair() -> None:
    world = World(settings(window=Days()))
    old = Checkpoint(
        "events",
        "landing",
        sequence=0,
        partition_watermarks=MappingProxyType({"p": "m.txt"}),
        closed_through="day=0009",
    )
    paths = ("p/a.txt", "p/z.txt", "q/a.txt", "day=0008/a.txt")
    world.delta.rows = [Row("events:landing", path, 0, "e", "x", 1) for path in paths]
    world.delta.commits = [
        Commit(0, {world.identity.app_id: 0}, encode(old), None),
        Commit(1, {world.identity.app_id: 1}, None, None),
    ]
    assert set(recovered(world).checkpoint.files) == {"p/z.txt", "q/a.txt"}


def test_a_file_larger_than_a_batch_is_in_progress_after_its_last_row() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"record {n:02d}" for n in range(30)))
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    for version in (1, 2):
        world.delta.spoil(version)
        world.forget_copy()
        assert recovered(world).checkpoint.in_progress == {"large.txt": 20}


def test_a_large_file_that_is_gone_counts_as_finished() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"record {n:02d}" for n in range(30)))
    world.job().step(draining=True)
    world.source.delete(["large.txt"])
    world.delta.spoil(1)
    world.forget_copy()
    assert dict(recovered(world).checkpoint.files) == {"large.txt": FINISHED}


# -- The state is not there


def test_rows_without_a_txn_are_an_error_that_says_what_to_do() -> None:
    world = three_commits()
    world.delta.commits = []
    with pytest.raises(RecoveryError, match=r"no Txn of 'blizzard:events:landing'.*Restore the table"):
        recovered(world)


def test_a_first_commit_that_comes_during_recovery_is_a_lost_race() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("holds_rows", world.drain)
    with pytest.raises(LostRace, match="another job"):
        recovered(world)


# -- The first Blizzard


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


def test_the_files_in_an_app_id_are_taken_over_and_what_is_older_than_its_commit_counts_as_seen() -> None:
    world = World()
    older = legacy_app_id({"schema_version": 1, "source_state": {"files": {}}, "delta_version": 0})
    world.delta.commits = [Commit(1, {older: 1}, None, 10.0)]
    world.delta.commits += [Commit(2, {IN_APP_ID: 2}, None, 20.5), Commit(3, {}, None, 30.0)]
    state = recovered(world).checkpoint
    assert (state.sequence, dict(state.files)) == (-1, {"p/m.txt": FINISHED, "p/n.txt": 5})
    assert state.late_swept_ts == 21 + 86_400
    assert world.events_logged("state_taken_over")[0]["tracked_files"] == 2


@pytest.mark.parametrize("txn", [PENGUINS, "penguin-events", "penguin-events-backfill"])
def test_where_penguin_committed_the_file_beside_the_table_is_taken_over(txn: str) -> None:
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
def test_a_txn_of_the_first_blizzard_is_found_however_old_it_is(txn: str) -> None:
    world = World()
    world.delta.commits = [Commit(0, {txn: 1}, None, 2.0), *(Commit(n, {}, None, None) for n in range(1, 50))]
    put_file(world, **MARKS)
    assert recovered(world, scan_commits=10).checkpoint.knows_files


def test_of_old_txns_the_newest_counts() -> None:
    world = World()
    older = legacy_app_id({"schema_version": 1, "source_state": {"files": {"p/a.txt": "Finished"}}, "delta_version": 0})
    world.delta.commits = [Commit(0, {older: 1}, None, 2.0), Commit(1, {IN_APP_ID: 2}, None, 3.0)]
    world.delta.commits += [Commit(2, {"somebody": 1}, None, 4.0)]
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
def test_the_order_of_old_txns_comes_from_what_they_say_and_not_from_clocks(
    txns: list[tuple[str, int]], clock: str, begun_anew: bool
) -> None:
    times = {"one time for all": [5.0] * 4, "a clock that runs back": [9.0, 8.0, 7.0, 6.0], "no times": [None] * 4}
    numbers = [7, 8, 1, 2] if begun_anew else [1, 2, 3, 4]
    found = newest_legacy([Txn(app_id, numbers[n], times[clock][n]) for app_id, n in txns], World().identity)
    assert found is not None
    assert len(found.state.files) == 4


@pytest.mark.parametrize(("penguins_ts", "knows"), [(4.0, True), (5.0, False), (6.0, False), (None, False)])
def test_penguin_s_txn_without_a_version_counts_unless_it_is_certainly_older(
    penguins_ts: float | None, knows: bool
) -> None:
    """It knows no files, so that nothing is taken over without the file that does."""
    txns = [Txn(state_of(3), 1, 5.0), Txn("penguin-events", 9, penguins_ts)]
    for order in (txns, txns[::-1]):
        found = newest_legacy(order, World().identity)
        assert found is not None
        assert found.state.knows_files == knows


def test_penguin_s_txn_counts_where_a_state_has_no_time() -> None:
    found = newest_legacy([Txn("penguin-events", 1, 5.0), Txn(state_of(3), 1, None)], World().identity)
    assert found is not None
    assert not found.state.knows_files


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
def test_without_a_watermark_for_each_partition_it_is_refused(
    txn: str, file: dict[str, object] | None, found: str
) -> None:
    world = World()
    world.delta.commits = [Commit(0, {txn: 1}, None, 2.0)]
    if file is not None:
        put_file(world, **file)
    with pytest.raises(RecoveryError, match=f"landing_checkpoint.json, found {found}.*would double its rows"):
        recovered(world)


def test_the_first_blizzard_s_file_without_any_txn_of_it_is_refused() -> None:
    world = World()
    put_file(world, **MARKS)
    with pytest.raises(RecoveryError, match=r"no Txn of it or of Penguin.*remove that file"):
        recovered(world)


def test_what_penguin_has_not_committed_yet_is_not_given_up() -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0)]
    world.delta.loose_files = [f"p/{FIRST_PARQUET}", FIRST_PARQUET, "p/part-01926abd.snappy.parquet"]
    put_file(world, **MARKS)
    with pytest.raises(RecoveryError, match=r"^2 Parquet files .* are in no commit, the first is 'p/01926abd-"):
        recovered(world)


@pytest.mark.parametrize("watermark", [None, {"state": "Initial"}], ids=str)
def test_a_file_that_says_that_nothing_was_ingested_is_a_fresh_start(watermark: object) -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0)]
    put_file(world, watermark=watermark)
    assert recovered(world) == Recovered(world.unknown())


@pytest.mark.parametrize("scan_commits", [100, 1])
@pytest.mark.parametrize("first", ["blizzard:events:first", "blizzard:others:landing"])
def test_a_source_that_comes_later_to_a_table_of_the_one_program_is_new(first: str, scan_commits: int) -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, 2.0), Commit(1, {first: 0}, None, 3.0)]
    world.delta.commits.append(Commit(2, {"somebody": 1}, None, 3.0))
    assert recovered(world, scan_commits=scan_commits) == Recovered(world.unknown())


def test_a_source_without_its_file_is_refused_even_if_others_had_theirs() -> None:
    world = World()
    world.delta.commits = [Commit(0, {PENGUINS: 1}, None, 2.0), Commit(1, {"blizzard:events:first": 0}, None, 3.0)]
    with pytest.raises(RecoveryError, match=r'put \{"watermark": null\} into that file'):
        recovered(world)


def test_a_state_that_nothing_dates_is_refused() -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, None)]
    with pytest.raises(RecoveryError, match="has no time, and the log has none"):
        recovered(world)


def test_a_state_of_the_first_blizzard_counts_no_more_once_there_is_one_of_ours() -> None:
    world = World()
    world.delta.commits = [Commit(0, {IN_APP_ID: 1}, None, 2.0)]
    world.arrive("p/z.txt")
    world.drain()
    world.delta.commits.append(Commit(len(world.delta.commits), {IN_APP_ID: 2}, None, None))
    assert recovered(world).checkpoint == world.state_now()
    assert world.state_now().sequence >= 0
    assert read_copy(world.state, world.identity) == world.state_now()
