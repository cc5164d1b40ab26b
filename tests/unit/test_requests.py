"""The number of storage requests of the loop for one batch: each is a round trip that delays its rows."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from blizzard.state.delta_log import Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from spark_job.loop.ingest import Ingest
from spark_job.ports.rows import Rows
from tests.unit.fakes import Calls, MemoryDelta, MemoryTable, World, settings

LOG = "_delta_log/"


class LoggedTable(MemoryTable):
    """A table with its log in files, which it reads as the real table does."""

    def __init__(self, delta: MemoryDelta, identity: SourceIdentity, store: ObjectStore, watched: ObjectStore) -> None:
        super().__init__(delta, identity, Calls())
        self._store = store
        self._written = 0
        self._tail = DeltaLogTail(watched)

    def prepare(self) -> None:
        super().prepare()
        self._write_log()
        self.newest_version()

    def newest_version(self) -> int:
        version = self._tail.newest_version()
        return -1 if version is None else version

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        return self._tail.commits(limit, above=above)

    def commit_at(self, version: int) -> Commit | None:
        return self._tail.commit_at(version)

    def append(self, rows: Rows | None, *, sequence: int, user_metadata: str) -> None:
        self.newest_version()
        super().append(rows, sequence=sequence, user_metadata=user_metadata)
        self._write_log()

    def replace(self, rows: Rows, paths: Sequence[str], *, sequence: int, user_metadata: str) -> None:
        super().replace(rows, paths, sequence=sequence, user_metadata=user_metadata)
        self._write_log()

    def _write_log(self) -> None:
        for commit in self._delta.commits[self._written :]:
            actions = [{"txn": {"appId": app_id, "version": version}} for app_id, version in commit.txns.items()]
            info = {"commitInfo": {"timestamp": 0, "userMetadata": commit.user_metadata}}
            lines = "\n".join(json.dumps(action) for action in [info, *actions])
            self._store.put(f"{LOG}{commit.version:020d}.json", lines.encode())
        self._written = len(self._delta.commits)


class LoggedWorld(World):
    def table(self) -> MemoryTable:
        return LoggedTable(self.delta, self.identity, self.state, self._watched_state())


def requests(world: World, job: Ingest) -> Counter[str]:
    """The storage requests of one turn: verb and folder."""
    world.calls.names.clear()
    job.step(draining=True)
    return Counter(request for name in world.calls.names if (request := _request(name)))


def _request(name: str) -> str:
    verb, _, key = name.partition(" ")
    known = {LOG: "log", "/pending/": "manifest", "/receipts/": "receipt", "_checkpoint.json": "copy"}
    place = next((place for part, place in known.items() if part in key), "")
    return f"{verb} {place}" if place and verb != "listed" else ""


def running(world: World) -> Ingest:
    """A job that has committed once."""
    world.arrive("a.txt")
    job = world.job()
    job.step(draining=True)
    return job


PLAN = {"list manifest": 1, "get manifest": 1}
COMMIT = {"put receipt": 1, "list log": 1, "get log": 1}
"""One check whether the table exists; the last GET finds that the commit is ours."""
PUBLISH = {"put copy": 1, "list manifest": 1, "delete manifest": 1}


def total(*parts: dict[str, int]) -> Counter[str]:
    return sum((Counter(part) for part in parts), Counter())


def test_a_batch_costs_eight_requests() -> None:
    world = LoggedWorld()
    job = running(world)
    for name in ("b.txt", "c.txt", "d.txt"):
        world.arrive(name)
        assert requests(world, job) == total(PLAN, COMMIT, PUBLISH)
    assert len(world.delta.commits) == 1 + 4


def test_a_batch_on_an_old_table_costs_the_same_requests() -> None:
    world = LoggedWorld()
    job = running(world)
    for number in range(100):
        world.arrive(f"b{number:02d}.txt")
        job.step(draining=True)
    world.arrive("c.txt")
    assert requests(world, job) == total(PLAN, COMMIT, PUBLISH)


def test_batches_within_one_segment_neither_read_it_again_nor_trim() -> None:
    world = LoggedWorld(settings(interval_files=2))
    job = running(world)
    world.deliver(*[world.put(f"b{number}.txt", "x") for number in range(6)])
    assert requests(world, job) == total(PLAN, COMMIT, {"put copy": 1})
    assert requests(world, job) == total({"list manifest": 1}, COMMIT, {"put copy": 1})
    assert requests(world, job) == total({"list manifest": 1}, COMMIT, PUBLISH)
    assert world.segments() == [1]


def test_a_commit_of_another_writer_costs_one_read_of_the_log() -> None:
    world = LoggedWorld()
    job = running(world)
    world.delta.commits.append(Commit(len(world.delta.commits), {"blizzard:events:other": 5}, "{}", None))
    world.arrive("b.txt")
    looking = {"list log": 1, "get log": 2}
    assert requests(world, job) == total(PLAN, COMMIT, looking, PUBLISH)
    world.arrive("c.txt")
    assert requests(world, job) == total(PLAN, COMMIT, PUBLISH)


def test_a_turn_without_new_files_costs_one_listing() -> None:
    world = LoggedWorld()
    job = running(world)
    assert requests(world, job) == {"list manifest": 1}
