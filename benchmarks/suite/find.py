"""`find`: 100 new files where 10,000, 100,000 and 1,000,000 are known already. Does it take longer?"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work
from benchmarks.data import Dataset
from benchmarks.figures import Spread, judge
from benchmarks.goals import goals_of
from benchmarks.known import NEW, Known
from benchmarks.process import scratch
from benchmarks.records import EVENT_SCHEMA
from benchmarks.result import Result, Table
from benchmarks.setting import Setting
from benchmarks.verify import Found, WrongResult, found_in

SIZES = (10_000, 100_000, 1_000_000)
STEADY = 9
"""Batches of a running job; one of ten makes a Delta checkpoint, and the median is of those that do not."""
COLUMNS = (
    "known files",
    "Blizzard s",
    "its first batch, with recovery, s",
    "found by a sweep instead, s",
    "Structured Streaming s",
)
NOTE = (
    "Of each history the first commit was made for real and the others were written beside it, as was the list of "
    "files that Structured Streaming has seen; the rows of both tables are counted afterwards."
)


def run(setting: Setting) -> Result:
    found: dict[int, dict[str, list[float]]] = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
            count = setting.count(size, 20)
            found[count] = _measure(Path(folder), count, setting)
    rows = tuple((f"{count:,}", *(str(Spread.of(secs)) for secs in by.values())) for count, by in found.items())
    return Result(
        "find",
        f"{NEW} new files of one record, announced, until they are committed",
        (Table(COLUMNS, rows),),
        tuple(judge(goals_of("find"), measured([*found.values()]), {})),
        notes=(NOTE,),
        raw={"secs": {str(count): by for count, by in found.items()}},
    )


def measured(found: Sequence[dict[str, list[float]]]) -> dict[str, Spread]:
    """The slowest size's median by that of the fastest."""

    def flat(kind: str) -> Spread:
        medians = [Spread.of(by[kind]).median for by in found]
        return Spread.of([max(medians) / min(medians)])

    return {"flat": flat("steady"), "flat_first": flat("first")}


def _measure(folder: Path, count: int, setting: Setting) -> dict[str, list[float]]:
    per_batch = min(setting.count(1_000, 10), count)
    known = Known(str(folder / "landing"), count, per_batch, setting.count(10_000, 20))
    setting.say(f"find: making {count:,} files")
    known.make()
    turns = max(setting.rounds, setting.count(STEADY, 1)) + 2
    blizzard = _process("find_blizzard", known, folder, 1 + turns, setting)
    _check("Blizzard", folder / "find_blizzard", range(count + NEW * turns), blizzard)
    streaming = _process("find_streaming", known, folder, 1 + setting.rounds, setting)
    numbers = [0, *range(count, count + NEW * setting.rounds)]
    _check("Structured Streaming", folder / "find_streaming", numbers, streaming)
    secs = [answer["commit_secs"] for answer in blizzard]
    return {
        "steady": secs[2:-1],
        "first": secs[1:2],
        "swept": secs[-1:],
        "streaming": [answer["commit_secs"] for answer in streaming[1:]],
    }


def _process(who: str, known: Known, folder: Path, runs: int, setting: Setting) -> list[dict[str, Any]]:
    setting.say(f"find: {known.count:,} files, {who.removeprefix('find_')}")
    out = folder / who
    out.mkdir()
    data = Dataset("find", setting.scale, known.folder, EVENT_SCHEMA, 0, 0, 0, 0, 0, ())
    work = Work(who, data, str(out), runs, setting.cores, options=asdict(known))
    return setting.process(work, out, {})[0]


def _check(who: str, out: Path, numbers: Sequence[int], answers: Sequence[dict[str, Any]]) -> None:
    """Raises WrongResult unless the table has one record of each number."""
    found = found_in(f"{out}/0/table")
    expected = Found(len(numbers), sum(numbers), found.commits)
    if found != expected or any(answer.get("commits", 1) != 1 for answer in answers):
        commits = [answer.get("commits") for answer in answers]
        raise WrongResult(f"find, {who}: expected {expected} and a commit a batch, found {found} and {commits}")
