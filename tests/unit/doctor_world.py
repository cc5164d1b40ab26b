"""Examinations of a small lake."""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from blizzard.doctor.check import Finding, Result, Verdict
from blizzard.doctor.doctor import Examination
from blizzard.log import Log
from blizzard.state.checkpoint_codec import CheckpointCodec, read_copy
from blizzard.state.delta_log import commit_key
from blizzard.storage.local import LocalStore
from spark_job.engines.auto import AutoEngine
from spark_job.tasks.engine import Engine
from tests.unit.documents import ROOT, anchors
from tests.unit.operator_world import IDENTITY, OperatorWorld

DAY_SECS = 86_400.0
NOTHING_WRONG = (Verdict.OK, Verdict.SKIPPED)


@dataclass
class DoctorWorld(OperatorWorld):
    """`spark`: makes the engine for what only Spark can do; None: nothing asks for it."""

    environ: dict[str, str] = field(default_factory=dict)
    spark: Callable[[], Engine] | None = None

    def engine(self, log: Log) -> Engine:
        local = super().engine(log)
        return local if self.spark is None else AutoEngine(local, self.spark, log)

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.lake)

    def commit(self, *actions: Mapping[str, Any]) -> None:
        """A foreign writer's."""
        version = self.table().version() + 1
        lines = [json.dumps(action) for action in actions]
        (self.lake / commit_key(version)).write_text("\n".join(lines) + "\n")

    def set_properties(self, **properties: str) -> None:
        """Of the table; `__` stands for a dot."""
        first = (self.lake / commit_key(0)).read_text().splitlines()
        (metadata,) = (json.loads(line)["metaData"] for line in first if line.startswith('{"metaData"'))
        changed = {name.replace("__", "."): value for name, value in properties.items()}
        self.commit({"metaData": {**metadata, "configuration": {**metadata["configuration"], **changed}}})

    def examine(self, *, later_secs: float = 0.0) -> list[Result]:
        """`later_secs`: how late the clock is."""
        clock = lambda: time.time() + later_secs  # noqa: E731
        return [*Examination(str(self.config_file), self.environ, clock).results()]

    def finding(self, check_id: str, *, later_secs: float = 0.0) -> Finding:
        (found,) = (each.finding for each in self.examine(later_secs=later_secs) if each.id == check_id)
        return found


def ingested(folder: Path) -> DoctorWorld:
    """Two batches of two files."""
    for name, data in _ingested_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return DoctorWorld(folder)


@cache
def _ingested_files() -> Mapping[str, bytes]:
    """Ingested once, for all tests of a process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        world = DoctorWorld(folder)
        for batch in range(2):
            for number in range(2):
                world.land(f"date=2026-11-2{batch}/{batch}{number}.ndjson.gz", "a", "b")
            world.run()
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def wrong(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Every check that did not find all well, with what it says."""
    return [(each.id, each.finding.found) for each in results if each.verdict not in NOTHING_WRONG]


Fault = tuple[Callable[[DoctorWorld], object], str, Verdict, str]
"""What plants it, the id and the verdict of the check that finds it, and what that says."""


def assert_found_alone(fault: Fault, folder: Path, areas: tuple[str, ...]) -> None:
    """Planted in a healthy world, it is found under its id, and nothing else in these areas is wrong."""
    plant, check_id, verdict, said = fault
    world = ingested(folder)
    plant(world)
    results = world.examine()
    (found,) = (each.finding for each in results if each.id == check_id)
    assert (found.verdict, said in found.found) == (verdict, True), found
    assert_says_what_to_do(found)
    others = [each for each in wrong(results) if each[0].startswith(areas)]
    assert [each[0] for each in others] == [check_id], others


def assert_says_what_to_do(found: Finding) -> None:
    """And the sections that it names exist."""
    assert found.expected
    assert found.advice
    for page, anchor in re.findall(r"(docs/[a-z0-9-]+\.md)(?:#([a-z0-9_-]+))?", found.advice):
        assert not anchor or anchor in anchors(ROOT / page), found.advice


def write(file: Path, data: bytes) -> None:
    """Files of the lake have no second name that would change with them."""
    file.unlink()
    file.write_bytes(data)


def tear_copy(world: DoctorWorld) -> None:
    """The copy of the checkpoint."""
    write(world.lake / IDENTITY.copy_key, b"{")


def change_copy(world: DoctorWorld, by: int) -> None:
    """It is of another sequence than the newest commit then."""
    copy = read_copy(world.store, IDENTITY)
    assert copy is not None
    codec = CheckpointCodec(world.store, IDENTITY)
    world.store.put(IDENTITY.copy_key, codec.encode(replace(copy, sequence=copy.sequence + by)).encode())
