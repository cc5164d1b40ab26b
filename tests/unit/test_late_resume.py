"""When a late sweep may resume at its cursor, and when it starts over."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from blizzard.state.watermark import SourceProgress, no_folder
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.folders import open_partitions
from blizzard.sweep.late_cursor import (
    LateSweepScope,
    RequiredSegments,
    UnbrokenSegments,
)
from blizzard.sweep.source_sweep import sweep_rules
from tests.unit.fakes import World
from tests.unit.late_sweeps import (
    FOLDERS,
    TREES,
    appended,
    many,
    part,
    swept_world,
)


def starts_over(world: World) -> bool:
    report = part(world, None)
    assert report.complete
    return report.listed == len(list(world.source.list()))


@pytest.fixture
def stopped_sweep() -> World:
    """A world in which a late sweep found a file and then stopped half way."""
    world = swept_world(*many())
    world.put("!.txt", "late")
    world.clock.advance(10)
    report = part(world, 20)
    assert appended(world, report) == ["!.txt"]
    assert report.cursor is not None
    return world


def test_a_late_sweep_does_not_start_over_without_a_reason(stopped_sweep: World) -> None:
    assert not starts_over(stopped_sweep)


def test_a_late_sweep_does_not_start_over_when_entries_are_consumed_or_events_arrive(stopped_sweep: World) -> None:
    stopped_sweep.drain()
    stopped_sweep.arrive("b/new.txt")
    part(stopped_sweep, 12)
    stopped_sweep.drain()
    assert not starts_over(stopped_sweep)


@pytest.mark.parametrize("harm", ["report lost", "cursor damaged", "rules", "address", "overlap", "overtaken", "copy"])
def test_a_late_sweep_starts_over_when_its_preconditions_changed(stopped_sweep: World, harm: str) -> None:
    world, key = stopped_sweep, stopped_sweep.identity.report_key
    if harm == "report lost":
        world.state.delete([key])
    elif harm == "cursor damaged":
        document = json.loads(world.state.get(key))
        del document["late"]["cursor"]["epoch"]
        world.state.put(key, json.dumps(document).encode())
    elif harm == "rules":
        sweeping = replace(world.settings.sweep_rules, definition="other")
        world.settings = replace(world.settings, sweep_rules=sweeping)
    elif harm == "address":
        moved = MemoryStore(world.clock, "memory://elsewhere/")
        for info in world.source.list():
            moved.put(info.key, world.source.get(info.key))
        world.source = moved
    elif harm == "overlap":
        sweeping = replace(world.settings.sweep_rules, late_overlap_secs=50.0)
        world.settings = replace(world.settings, sweep_rules=sweeping)
    elif harm == "overtaken":
        world.late_sweep()
    else:
        world.forget_copy()
    assert starts_over(world)


def test_files_of_an_earlier_part_are_found_again_after_the_manifest_was_deleted(stopped_sweep: World) -> None:
    stopped_sweep.wipe()
    assert starts_over(stopped_sweep)
    stopped_sweep.drain()
    assert "!.txt" in stopped_sweep.files()


def test_files_of_an_earlier_part_are_found_again_after_the_manifest_restarted(stopped_sweep: World) -> None:
    numbers = stopped_sweep.segments()
    stopped_sweep.wipe()
    while max(stopped_sweep.segments(), default=-1) <= numbers[-1]:
        stopped_sweep.arrive(f"b/{len(stopped_sweep.contents)}.txt")
    stopped_sweep.drain()
    assert starts_over(stopped_sweep)
    stopped_sweep.drain()
    assert "!.txt" in stopped_sweep.files()


def test_files_of_an_earlier_part_are_found_again_after_a_segment_became_unreadable(stopped_sweep: World) -> None:
    stopped_sweep.corrupt_segment(stopped_sweep.segments()[-1])
    assert starts_over(stopped_sweep)
    stopped_sweep.drain()
    assert "!.txt" in stopped_sweep.files()


def test_a_changed_pattern_or_template_changes_the_rules() -> None:
    def definition(pattern: str, template: str | None) -> str:
        return sweep_rules(
            pattern=pattern, prefix_template=template, lookback=1, settle_delay_secs=1.0, late_overlap_secs=1.0
        ).definition

    assert definition("**", None) == definition("**", None)
    assert len({definition("**", None), definition("*", None), definition("**", "day=%Y-%m-%d")}) == 3


SCOPE = LateSweepScope(100.0, 50.0, "listing", "day=0005")


@pytest.mark.parametrize(
    ("now", "late_swept_ts", "can_resume"),
    [
        (replace(SCOPE, started_ts=101.0), 60.0, True),
        (SCOPE, 60.0, True),
        (replace(SCOPE, since_ts=51.0, closed_through="day=0006"), 99.0, True),
        (replace(SCOPE, started_ts=99.0), 60.0, False),
        (replace(SCOPE, since_ts=49.0), 60.0, False),
        (replace(SCOPE, since_ts=None), None, False),
        (replace(SCOPE, listing="other"), 60.0, False),
        (replace(SCOPE, closed_through="day=0004"), 60.0, False),
        (replace(SCOPE, closed_through=None), 60.0, False),
        (SCOPE, 100.0, False),
    ],
)
def test_a_late_sweep_can_resume_while_no_file_can_be_hidden(
    now: LateSweepScope, late_swept_ts: float | None, can_resume: bool
) -> None:
    progress = SourceProgress({}, {}, now.closed_through, late_swept_ts, no_folder)
    assert SCOPE.can_resume(now, progress) is can_resume
    assert replace(SCOPE, since_ts=None).can_resume(replace(SCOPE, since_ts=None), progress) is (late_swept_ts != 100.0)


@pytest.mark.parametrize(
    ("unbroken", "included"),
    [
        (UnbrokenSegments(3, 9, "x"), True),
        (UnbrokenSegments(0, 7, "x"), True),
        (UnbrokenSegments(4, 9, "x"), False),
        (UnbrokenSegments(3, 6, "x"), False),
        (UnbrokenSegments(3, 9, "y"), False),
        (UnbrokenSegments(3, 9, None), False),
    ],
)
def test_required_segments_are_included_only_if_none_was_lost(unbroken: UnbrokenSegments, included: bool) -> None:
    assert unbroken.covers(RequiredSegments(3, 7, "x")) is included
    assert unbroken.covers(RequiredSegments(3, 2, "z"))


def all_partitions(store: ObjectStore, start: str = "") -> list[str]:
    return list(open_partitions(store, SourceProgress({}, {}, None, None, no_folder), start))


@given(TREES, FOLDERS)
def test_partitions_from_any_folder_are_the_rest_of_all_partitions(tree: set[str], folder: str) -> None:
    store, start = MemoryStore(lambda: 1.0), folder.removesuffix("/")
    for path in tree:
        store.put(path, b"x")
    rest = all_partitions(store, start)
    assert rest[0] == start
    store.put(f"{folder}x.txt", b"x")
    whole = all_partitions(store)
    assert [p for p in rest if p != start] == [
        p for p in whole[whole.index(start) + 1 :] if p in rest or any(path.startswith(f"{p}/") for path in tree)
    ]


def test_partitions_on_disk_continue_after_a_deleted_folder(tmp_path: Path) -> None:
    for path in ("a.txt", "a/b/c.txt", "d/e.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    store = LocalStore(tmp_path)
    assert all_partitions(store, "a/a/a") == ["a/a/a", "a/b", "d"]
    assert list(store.list("a/a/a/", start_after="a/a/a/b.txt", recursive=False)) == []
