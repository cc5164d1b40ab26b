"""Worlds in which nothing is wrong: no check says otherwise."""

import gzip
import random
from pathlib import Path

import pytest

from blizzard.doctor.check import Verdict
from tests.unit.doctor_world import DoctorWorld, ingested, wrong


def test_a_world_in_which_nothing_has_happened_yet(tmp_path: Path) -> None:
    world = DoctorWorld(tmp_path)
    assert wrong(world.examine()) == []
    assert world.finding("table.log").verdict is Verdict.SKIPPED


def test_an_ingested_world(tmp_path: Path) -> None:
    results = ingested(tmp_path).examine()
    assert wrong(results) == []
    here = {each.id for each in results if each.verdict is Verdict.SKIPPED and not each.id.startswith("aws.")}
    assert here == {"state.uploads", "state.lost-events", "state.runs"}  # of S3, and of a stack


def test_a_world_whose_columns_change(tmp_path: Path) -> None:
    """By a commit without rows."""
    world = ingested(tmp_path)
    world.settings["new_fields"] = "add"
    (world.folder / "incoming/new.ndjson.gz").write_bytes(gzip.compress(b'{"id": "b", "amount": 1, "extra": 5}\n'))
    world.run()
    assert wrong(world.examine()) == []


@pytest.mark.parametrize("seed", range(6))
def test_random_worlds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings: dict[str, object] = {"checkpoint": {"interval_files": chance.choice([1, 3, 100]), "interval_secs": 0}}
    if chance.random() < 0.3:  # files are read in slices
        settings["checkpoint"] = {"interval_files": 3, "interval_bytes": 50, "interval_secs": 0}
    world = DoctorWorld(tmp_path, settings=settings, pipeline={"engine": chance.choice(["auto", "local"])})
    for number in range(chance.randint(1, 6)):
        for _ in range(chance.randint(0, 8)):
            folder = chance.choice(["", "a/", "a/b/", f"date=2026-11-{10 + number}/"])
            world.land(f"{folder}{chance.randrange(16**6):06x}.ndjson.gz", *"abc"[: chance.randint(0, 3)])
        if chance.random() < 0.5:
            assert wrong(world.examine()) == []
        world.run()
        assert wrong(world.examine(later_secs=chance.choice([0, 3_600, 80_000]))) == []
