"""The steps of a first run, and the use of the cores, from invented clocks and logs."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import phases, timeline
from benchmarks.contenders import Work
from benchmarks.contenders.timestamps import SERVER_PID, Timestamps, cpu_secs_so_far
from benchmarks.data import Dataset
from benchmarks.machine import BackgroundLoad, background_load_note
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.rounds import ContenderRuns, Measured
from benchmarks.suite.subprocess_run import background_loads, run_module
from benchmarks.timeline import MtimeRecorder, TableMtimes

NO_DATA = Dataset("small", 1.0, "", "", 0, {}, 0, 0, 0, ())
TITLES = {"blizzard": "Blizzard", "spark_reader": "Spark's own reader"}


def run_of(
    *answers: dict[str, Any], cold: float = 1.0, warm: float = 1.0, cpu: float = 0.0, others: float = 0.0
) -> Measured:
    return Measured("somebody", 0.0, cold, (warm,), ResourceUsage(0, 0, 0, cpu, others), answers)


def blizzard(
    start: float, began: float, planned: float, session: float, read: float, committed: float, ended: float
) -> dict[str, Any]:
    """The answer of a run with two batches, of which only the first counts; `start`: from where its time counts."""
    events = [
        ("batch_planned", planned),
        ("batch_read", read),
        ("batch_committed", committed),
        ("batch_planned", ended),
    ]
    return {
        "clock": {"from": start, "began": began, "ended": ended},
        "moments": {"session": session},
        "events": [{"event": event, "at": at} for event, at in events],
    }


def spark(start: float, began: float, session: float, planned: float, ended: float) -> dict[str, Any]:
    """The answer of a run whose wall clock is 1,000 seconds ahead of its monotonic clock."""
    return {
        "clock": {"from": start, "began": began, "ended": ended},
        "began_ts": 1_000 + began,
        "moments": {"session": session, "planned": planned},
    }


def found(processes: int = 1) -> Mapping[str, Sequence[Sequence[timeline.Moments]]]:
    first, second = blizzard(100, 102, 103, 108, 115, 116, 117), blizzard(117, 117, 117.5, 117.75, 120, 120.5, 121)
    beside = [spark(200, 201, 205, 206, 225), spark(225, 225, 225, 225.5, 234)]
    mtimes = MtimeRecorder([TableMtimes(1_220, 1_224), TableMtimes(1_232, 1_233)] * processes)
    series = {
        "blizzard": ContenderRuns("Blizzard", [run_of(first, second)] * processes),
        "spark_reader": ContenderRuns("Spark's own reader", [run_of(*beside)] * processes),
    }
    return timeline.moments_of(series, mtimes)


def test_moments_count_from_the_start_of_the_process_and_in_a_second_run_from_its_own() -> None:
    moments = found()
    assert moments["blizzard"][0] == [
        {"imported": 2, "session": 8, "planned": 3, "read": 15, "committed": 16, "ended": 17},
        {"imported": 0, "session": 0.75, "planned": 0.5, "read": 3, "committed": 3.5, "ended": 4},
    ]


def test_what_spark_does_in_one_call_is_told_by_the_files_that_it_wrote() -> None:
    assert found()["spark_reader"][0] == [
        {"imported": 1, "session": 5, "planned": 6, "read": 20, "committed": 24, "ended": 25},
        {"imported": 0, "session": 0, "planned": 0.5, "read": 7, "committed": 8, "ended": 9},
    ]


def test_a_step_is_what_passed_since_the_moment_before_it_whichever_that_was() -> None:
    steps = timeline.steps(found()["blizzard"][0][0])
    assert steps == {"imported": 2, "planned": 1, "session": 5, "read": 7, "committed": 1, "ended": 1}
    assert sum(steps.values()) == 17


def test_the_table_has_each_moment_of_both_beside_the_second_runs_step() -> None:
    table = timeline.table(found(), TITLES)
    assert table.columns[1::3] == ("Blizzard", "Spark's own reader")
    rows = dict(zip(timeline.MOMENTS, table.rows, strict=True))
    assert rows["session"] == ("Spark session started", "8", "5", "0.25", "5", "4", "0")
    assert rows["read"][1:] == ("15", "7", "2.25", "20", "14", "6.50")


def test_the_notes_say_which_steps_make_a_first_run_longer() -> None:
    first, other, _ = timeline.notes(found(3), TITLES)
    assert first.startswith(
        "Blizzard: a first run takes 13 s longer than a second one. By step: Spark session started, 4.75; its "
    )
    assert other.startswith(
        "Spark's own reader: a first run takes 16 s longer than a second one. By step: its files read, data files "
        "written, 7.50; "
    )


def test_a_single_run_has_nothing_to_be_held_against() -> None:
    moments = {"blizzard": [runs[:1] for runs in found()["blizzard"]]}
    assert timeline.table(moments, TITLES).rows[0] == ("imports done", "2", "2", "")
    assert timeline.notes(moments, TITLES) == (timeline.NOTE,)


def test_a_table_tells_when_its_newest_data_and_its_commit_were_written(tmp_path: Path) -> None:
    table = tmp_path / "0" / "table"
    times = {
        "date=1/a.parquet": 50,
        "date=2/b.parquet": 60,
        "_delta_log/0.json": 70,
        "_delta_log/0.checkpoint.parquet": 80,
    }
    for name, at_ts in times.items():
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).touch()
        os.utime(table / name, (at_ts, at_ts))
    mtimes = MtimeRecorder()
    for who in ("blizzard", "spark_reader", "bare_limit"):
        mtimes.inspect_table(Work(who, NO_DATA, str(tmp_path), 1, 2), 0)
    assert mtimes.found == [TableMtimes(60, 70)]


def test_a_moment_is_that_of_the_first_time() -> None:
    moments, made = Timestamps(), []
    session = moments.noting_session(lambda: made.append(time.monotonic()))
    session()
    first = dict(moments.at)
    session()
    assert moments.at == first
    assert made[0] <= first["session"] <= made[1]


# --- Who had the cores ---


def event(name: str, at: float, job: float, server: float) -> dict[str, Any]:
    return {"event": name, "at": at, "cpu_secs": job, "server_cpu_secs": server}


LOG = [
    event("run_began", 10, 100, 7),
    event("batch_planned", 12, 101, 7.5),
    event("recovered", 13, 101, 7.5),
    event("batch_read", 16, 107, 8),
    event("batch_committed", 17, 107.5, 8),
    event("batch_planned", 20, 108, 9),
    event("batch_read", 21, 109, 9),
    event("batch_committed", 22, 109, 9),
    event("run_ended", 22.5, 109, 9),
]


def test_each_phase_ends_with_its_event_and_batches_add_up() -> None:
    told = {name: (one.secs, one.job_secs, one.server_secs) for name, one in phases.phases(LOG).items()}
    assert told == {
        "plan": (5, 1.5, 1.5),
        "read to receipt": (5, 7, 0.5),
        "commit": (2, 0.5, 0),
        "after the commit": (0.5, 0, 0),
    }


def test_what_neither_worked_is_idle_or_others() -> None:
    series = {"big": {"s3": ContenderRuns("S3", [run_of({"events": []}, {"events": LOG})])}}
    table = phases.table(series, 2)
    assert table.rows[0] == ("big, s3, plan", "5", "1.50", "1.50", "7")
    assert [row[0] for row in table.rows] == [f"big, s3, {phase}" for phase in phases.ENDS.values()]


SERIES = {
    "big": {
        "local": ContenderRuns("disk", [run_of(cold=6.0, warm=4.0, cpu=12.0, others=0.2)]),
        "s3": ContenderRuns("S3", [run_of(cold=9.0, warm=6.0, cpu=14.0, others=0.3)]),
    }
}


def test_the_cores_were_the_jobs_the_servers_others_or_idle() -> None:
    rows = phases.account(SERIES, {"big": [5.0]}, 2).rows
    assert rows == (("big, local", "20", "12", "0", "4", "4"), ("big, s3", "30", "14", "5", "4", "7"))


def test_what_s3_adds_is_told_by_who_had_it() -> None:
    (note,) = phases.more_notes(SERIES, {"big": [5.0]}, 2)
    assert note.startswith(
        "Over S3, two runs of big take 10 core-seconds more: 2 in the job, 5 in the stand-in, 0 in other processes"
    )
    assert note.endswith("and 3 idle.")


def test_processors_are_noted_where_they_are_asked_for() -> None:
    assert cpu_secs_so_far(Work("blizzard", NO_DATA, "", 1, 2)) == {}
    alone = cpu_secs_so_far(Work("blizzard", NO_DATA, "", 1, 2, options={SERVER_PID: 0}))
    assert alone["cpu_secs"] > 0
    assert alone["server_cpu_secs"] == 0
    assert (
        cpu_secs_so_far(Work("blizzard", NO_DATA, "", 1, 2, options={SERVER_PID: os.getpid()}))["server_cpu_secs"] > 0
    )


# --- What else there was ---


def test_what_else_there_was_is_told_with_its_spread() -> None:
    note = background_load_note(
        {"a": [BackgroundLoad(1.0, 0.1), BackgroundLoad(2.0, 0.3)], "b": [BackgroundLoad(0.5, 0.0)]}
    )
    assert note.endswith("during the measurement: a, 1.50 (1..2) and 0.20 (0.10..0.30); b, 0.50 and 0.")


def test_a_piece_of_python_is_told_with_what_else_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([100.0, 103.0])
    own = iter([10.0, 12.0])
    clock = iter([50.0, 60.0])
    monkeypatch.setattr("benchmarks.suite.subprocess_run.busy_secs", lambda: next(busy))
    monkeypatch.setattr("benchmarks.suite.subprocess_run._own_secs", lambda: next(own))
    monkeypatch.setattr("benchmarks.suite.subprocess_run.load", lambda: 1.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("benchmarks.suite.subprocess_run.time.monotonic", lambda: next(clock, 60.0))
    done = subprocess.CompletedProcess([], 0, '{"secs": 1}')
    monkeypatch.setattr("benchmarks.suite.subprocess_run.subprocess.run", lambda *_, **__: done)
    answer = run_module("anything")
    assert answer == {"secs": 1, "load_before": 1.5, "others_share": (3.0 - 2.0) / (2 * 10.0)}
    assert background_loads([answer]) == [BackgroundLoad(1.5, 0.05)]


def test_what_this_process_worked_before_it_is_watched_does_not_count() -> None:
    """Runs in a new process, which has no children."""
    program = """
import os, time
from benchmarks.resource_monitor import ResourceMonitor
until = time.process_time() + 0.3
while time.process_time() < until:
    pass
with ResourceMonitor(os.getpid()) as watch:
    time.sleep(0.5)
print(watch.usage().cpu_secs)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True
    )
    assert 0 <= float(told.stdout) < 0.25
