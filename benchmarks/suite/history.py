"""`history`: commits of 100 files each in one process. Do times, log, manifest or state grow?"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work
from benchmarks.data import Dataset, dataset
from benchmarks.goals import goals_of
from benchmarks.machine import BackgroundLoad, background_load_note, load
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number
from benchmarks.verify import WrongResult, expect, found_in

FILES_PER_COMMIT = 100
LEAST_COMMITS = 20
"""Two of these make a Delta checkpoint."""
START = 30
"""Warm-up commits to a separate table."""
ENDS = 50
SHOWN = (1, 10, 100, 500, 1_000)
COLUMNS = ("after commit", "s, median of the 50 around it", "files in the log", "segments", "bytes of state")


def run(options: RunOptions) -> Result:
    data = dataset("small", options.scale, options.report_progress, cache=options.cache)
    each = max(1, min(FILES_PER_COMMIT, data.files // LEAST_COMMITS))
    commits = -(-data.files // each)
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        settings = {"checkpoint": {"interval_files": each}}
        start = {"start": min(START, commits)}
        work = Work("history", data, folder, commits, options.cores, settings=settings, options=start)

        def tick() -> None:
            done = len([*Path(work.table(0), "_delta_log").glob("0*.json")])
            options.report_progress(f"history: {done:,} of {commits:,} commits")

        before = load()
        answers, taken = options.process(work, Path(folder), {}, tick)
        _check(data, work, answers)
    return Result(
        "history",
        f"{commits:,} commits of {each} files of 10 records, in one process",
        (
            Table(COLUMNS, tuple(_row(answers, after) for after in SHOWN if after <= commits)),
            _parts(answers),
            _kinds(answers),
        ),
        tuple(evaluate_goals(goals_of("history"), measured(answers), {})),
        notes=(
            log_note(answers),
            f"Peak memory: {number(taken.peak_bytes / 2**20)} MiB in all processes.",
            background_load_note({"the process": [BackgroundLoad(before, taken.others_share)]}),
        ),
        raw={"commits": answers},
    )


def _check(data: Dataset, work: Work, answers: Sequence[dict[str, Any]]) -> None:
    """Raises WrongResult unless the rows are correct, the log has only the job's commits, one per segment, and its
    Delta checkpoints are those that the job logged."""
    if any(answer["commits"] != 1 for answer in answers):
        each = sorted({answer["commits"] for answer in answers})
        raise WrongResult(f"history: expected one commit for each of its segments, found {each}")
    told = [answer["version"] for answer in answers if answer["delta_checkpoint"]]
    found = sorted({answer["checkpoint_version"] for answer in answers} - {-1})
    if told != found:
        raise WrongResult(
            f"history: expected Delta checkpoints at the versions that the job logged, {told}, found {found}"
        )
    expect("history", data, found_in(work.table(0), data.checksums), answers[-1]["version"] + 1)


def ends_of(answers: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
    """The first and the last commits, up to ENDS each."""
    ends = min(ENDS, max(1, len(answers) // 2))
    return answers[:ends], answers[-ends:]


def measured(answers: Sequence[dict[str, Any]]) -> dict[str, Spread]:
    """Measurements by goal. The first commit, which creates the table, counts like any other."""
    first, last = ends_of(answers)
    medians = [Spread.of([answer["commit_secs"] for answer in part]).median for part in (first, last)]
    largest = [max(answer["state_bytes"] for answer in part) for part in (first, last)]
    behind = [answer["version"] - answer["checkpoint_version"] for answer in answers]
    return {
        "flat": Spread.of([medians[1] / medians[0]]),
        "segments": Spread.of([float(max(answer["segments"] for answer in answers))]),
        "log": Spread.of([float(max(behind))]),
        "state": Spread.of([largest[1] / largest[0]]),
    }


def log_note(answers: Sequence[dict[str, Any]]) -> str:
    each = (answers[-1]["log_files"] - answers[0]["log_files"]) / max(1, len(answers) - 1)
    return (
        f"The log's folder grows by {number(each)} files a commit, including checksums and Delta checkpoints. Their "
        "maximum number depends only on time: Delta removes files older than `delta.logRetentionDuration`, 30 days "
        "unless the table says otherwise."
    )


def _row(answers: Sequence[dict[str, Any]], after: int) -> tuple[str, ...]:
    near = answers[max(0, after - ENDS // 2) : after + ENDS // 2] if after > 1 else answers[:1]
    answer = answers[after - 1]
    secs = Spread.of([one["commit_secs"] for one in near])
    return (f"{after:,}", str(secs), *(f"{answer[key]:,}" for key in ("log_files", "segments", "state_bytes")))


def _parts(answers: Sequence[dict[str, Any]]) -> Table:
    """Times of the parts of a commit, as logged: the first commits and the last."""
    names = dict.fromkeys(name for answer in answers for part in answer["parts"] for name in part or ())
    columns = ("part of a commit, by its log", "s, first commits", "s, last commits")
    return Table(columns, tuple((name, *(_median(some, name) for some in ends_of(answers))) for name in names))


def _median(answers: Sequence[dict[str, Any]], name: str) -> str:
    return str(Spread.of([(part or {}).get(name, 0.0) for answer in answers for part in answer["parts"]]))


def _kinds(answers: Sequence[dict[str, Any]]) -> Table:
    """Times of commits with and without a Delta checkpoint: the first ones and the last."""
    rows = []
    for kind, wanted in (("with a Delta checkpoint", True), ("without", False)):
        secs = [answer["commit_secs"] for answer in answers if answer["delta_checkpoint"] is wanted]
        ends = min(ENDS, max(1, len(secs) // 2))
        shown = (str(Spread.of(part)) for part in (secs[:ends], secs[-ends:])) if secs else ("", "")
        rows.append((kind, f"{len(secs):,}", *shown))
    return Table(("commits", "count", f"s, first {ENDS} at most", f"s, last {ENDS} at most"), tuple(rows))
