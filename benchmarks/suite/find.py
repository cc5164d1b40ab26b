"""`find`: does ingesting 100 new files take longer if 10,000, 100,000 or 1,000,000 files are already known?"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work
from benchmarks.data import Dataset
from benchmarks.goals import goals_of
from benchmarks.machine import BackgroundLoad, background_load_note, load
from benchmarks.process import scratch
from benchmarks.records import EVENT_SCHEMA
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number
from benchmarks.synthetic_history import NEW, SyntheticHistory
from benchmarks.verify import Found, WrongResult, found_in

SIZES = (10_000, 100_000, 1_000_000)
STEADY = 9
"""Batches of a running job, in all rounds together. Every tenth commit makes a Delta checkpoint. Histories end at
multiples of ten, so all sizes make it in the same turn, and the medians are of commits without one."""
KINDS = ("steady", "first", "swept")
SHOWN = (*KINDS, "streaming")
COLUMNS = (
    "known files",
    "Blizzard, running job, s",
    "first batch of a new job, with recovery, s",
    "found by a sweep, without events, s",
    "Structured Streaming, s",
)
NOTES = (
    (
        "The sizes take turns batch by batch in one process, each with its own table, so other load on the machine "
        "affects all of them. A job's first batch runs in a warm JVM, and reads the log and the state again."
    ),
    (
        "Structured Streaming has a process for each size, one after the other. Each of its batches is a new query "
        "that reads its list of seen files. It is comparable with Blizzard's first batch and a sweep, not with a "
        "batch of a running job."
    ),
    (
        "Only the first commit of each history is real. The others were generated, and so was the list of files that"
        " Structured Streaming has seen. The rows of all tables are counted afterwards."
    ),
)


def run(options: RunOptions) -> Result:
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        histories = [*_made(Path(folder), options)]
        found, load_of_run = _blizzard(Path(folder), histories, options)
        background = {"Blizzard": [load_of_run]}
        for history in histories:
            found[history.count]["streaming"], load_of_run = _streaming(Path(folder), history, options)
            background[f"Structured Streaming among {history.count:,}"] = [load_of_run]
    rows = tuple((f"{count:,}", *(str(Spread.of(by[kind])) for kind in SHOWN)) for count, by in found.items())
    spreads = measured([*found.values()])
    return Result(
        "find",
        f"time from announcing {NEW} new files of one record each to their commit",
        (Table(COLUMNS, rows),),
        tuple(evaluate_goals(goals_of("find"), spreads, {}, rounds=options.rounds)),
        notes=(
            *NOTES,
            swept_note(spreads["flat_swept"], [by["sweep"] for by in found.values()]),
            background_load_note(background),
        ),
        raw={"secs": {str(count): by for count, by in found.items()}},
    )


def measured(found: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Spread]:
    """Median of the slowest size divided by that of the fastest. `flat_swept` has no goal; a note reports it."""

    def flat(kind: str) -> Spread:
        medians = [Spread.of(by[kind]).median for by in found]
        return Spread.of([max(medians) / min(medians)])

    return {"flat": flat("steady"), "flat_first": flat("first"), "flat_swept": flat("swept")}


def swept_note(flat: Spread, sweeps: Sequence[Sequence[float]]) -> str:
    """`sweeps`: by size, the seconds of the sweeps without the batches that follow them."""
    *smaller, largest = (number(Spread.of(secs).median) for secs in sweeps)
    times, alone = f"{number(flat.median)}{TIMES}", f"{', '.join(smaller)} and {largest} s"
    return (
        f"If a sweep has to find the {NEW} files, the slowest size takes {times} as long as the fastest; there is no "
        f"goal for that. The sweep itself is {alone} of these seconds. No folder of this source ever closes, and a "
        "sweep reads all names of each open folder twice, for its subfolders and for the files above its watermark, "
        "because a local disk cannot start a listing after a name. A `partition_filter` limits the number of open "
        "folders. Structured Streaming gets no events and also searches for files, so compare its times with these."
    )


def turns_of(options: RunOptions) -> list[str]:
    """The turns of each size. Every round begins with a new job that has to recover."""
    each = -(-options.count(STEADY, 1) // options.rounds)
    return ["history", *(["first", *["steady"] * each, "swept"] * options.rounds)]


def _made(folder: Path, options: RunOptions) -> Iterable[SyntheticHistory]:
    for size in SIZES:
        count = options.count(size, 20)
        options.report_progress(f"find: making {count:,} files")
        history = SyntheticHistory(
            str(folder / f"{count}"), count, min(options.count(1_000, 10), count), options.count(10_000, 20)
        )
        history.make()
        yield history


def _blizzard(
    folder: Path, histories: Sequence[SyntheticHistory], options: RunOptions
) -> tuple[dict[int, dict[str, list[float]]], BackgroundLoad]:
    turns = turns_of(options)
    options.report_progress(f"find: Blizzard, {len(turns) - 1} batches for each size in turn")
    contender_options = {"histories": [asdict(history) for history in histories], "turns": turns}
    out, answers, background = _process(
        "find_blizzard", folder, "blizzard", len(turns) * len(histories), contender_options, options
    )
    found = {}
    for history in histories:
        mine = [answer for answer in answers if answer["known"] == history.count]
        commits = -(-history.count // history.batch) + len(turns) - 1
        _check(
            "Blizzard", out / Path(history.folder).name, range(history.count + NEW * (len(turns) - 1)), mine, commits
        )
        found[history.count] = {
            kind: [answer["commit_secs"] for answer in mine if answer["kind"] == kind] for kind in KINDS
        } | {"sweep": [answer["swept_secs"] for answer in mine if answer["kind"] == "swept"]}
    return found, background


def _streaming(folder: Path, history: SyntheticHistory, options: RunOptions) -> tuple[list[float], BackgroundLoad]:
    options.report_progress(f"find: {history.count:,} files, Structured Streaming")
    runs = 1 + options.rounds
    name = f"streaming-{history.count}"
    out, answers, background = _process("find_streaming", folder, name, runs, asdict(history), options)
    _check("Structured Streaming", out, [0, *range(history.count, history.count + NEW * options.rounds)], answers, runs)
    return [answer["commit_secs"] for answer in answers[1:]], background


def _process(
    who: str, folder: Path, name: str, runs: int, contender_options: dict[str, Any], options: RunOptions
) -> tuple[Path, list[dict[str, Any]], BackgroundLoad]:
    """Runs a contender; returns its output folder, its answers and the background load."""
    out = folder / name
    out.mkdir()
    data = Dataset("find", options.scale, contender_options.get("folder", ""), EVENT_SCHEMA, 0, {}, 0, 0, 0, ())
    work = Work(who, data, str(out), runs, options.cores, options=contender_options)
    before = load()
    answers, taken = options.process(work, out, {})
    return out, answers, BackgroundLoad(before, taken.others_share)


def _check(who: str, out: Path, numbers: Sequence[int], answers: Sequence[dict[str, Any]], commits: int) -> None:
    """Raises WrongResult unless the table has one record of each number and this many commits, one per batch."""
    found, expected = found_in(f"{out}/0/table"), Found(len(numbers), {"n": sum(numbers)}, commits)
    if found != expected or any(answer.get("commits", 1) != 1 for answer in answers):
        per_batch = [answer.get("commits") for answer in answers]
        raise WrongResult(f"find, {who}: expected {expected} and one commit per batch, found {found} and {per_batch}")
