"""Takes the measurements of `names`."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work
from benchmarks.contenders.names_ingest import KINDS, names, table_of
from benchmarks.data import Dataset, dataset
from benchmarks.ledger.simulated import sparse_run
from benchmarks.ledger.stored import StoredLedger, make_ledger
from benchmarks.ledger.table import ManyFiles
from benchmarks.process import scratch
from benchmarks.records import EVENT_SCHEMA
from benchmarks.run_options import RunOptions
from benchmarks.s3_stand_in import stand_in
from benchmarks.suite import latency
from benchmarks.suite.subprocess_run import run_module
from benchmarks.verify import Found, WrongResult, found_in
from blizzard.environment import temporary_variables

LATENCY_SECS = 0.03
ROWS_PER_FILE = 100
"""Of the table from which the ledger is rebuilt."""
SIZES = (10_000, 1_000_000, 10_000_000)
SIMULATED = 100_000_000
LIVES = (100, 20_000)
"""Files in a commit."""
BATCHES = 5
RACES = 3
NEW = 100
DROPS = 30
DROPPED_KINDS = KINDS
BATCHES_OF_NEW_FILES = 30
PLACES = ("local disk", "S3")


@dataclass(frozen=True, slots=True)
class LookUps:
    """`runs`: for each place, the answers of `benchmarks.ledger.look_up`, one for each round."""

    ledger: StoredLedger
    runs: Mapping[str, Sequence[Mapping[str, Any]]]

    def to_json(self) -> dict[str, Any]:
        return {"ledger": asdict(self.ledger), "runs": self.runs}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        yield Path(folder)


# --- Ingesting ---


def ingested(options: RunOptions) -> dict[str, list[list[dict[str, Any]]]]:
    """By place, for each round, the batches of both kinds of names. The places take turns."""
    data = dataset("small", options.scale, options.report_progress, cache=options.cache)
    found: dict[str, list[list[dict[str, Any]]]] = {place: [] for place in PLACES}
    for turn in range(options.rounds):
        for place in PLACES if turn % 2 == 0 else PLACES[::-1]:
            options.report_progress(f"names: ingesting, round {turn + 1} of {options.rounds}: {place}")
            with scratch_folder() as folder:
                found[place].append(_ingested_at(place, folder, data, options))
    return found


def _ingested_at(place: str, folder: Path, data: Dataset, options: RunOptions) -> list[dict[str, Any]]:
    each = -(-data.files // BATCHES)
    settings = {
        "checkpoint": {"interval_files": each, "interval_bytes": "1GiB"},
        "pattern": "**/*.json",
        "compression": "gzip",
    }
    runs = len(KINDS) * -(-data.files // each)
    work = Work("names_ingest", data, str(folder / "lake"), runs, options.cores, settings=settings)
    (folder / "landing").mkdir()
    work = replace(work, source=str(folder / "landing"), options={"batch": each, "landing": str(folder / "landing")})
    if place == "local disk":
        answers, _ = options.process(work, folder, {})
    else:
        buckets = {name: folder / name for name in ("landing", "lake")}
        with stand_in(buckets, latency_secs=LATENCY_SECS) as server, temporary_variables(server.environment):
            remote = replace(work, out="s3://lake", source="s3://landing")
            answers, _ = options.process(remote, folder, server.environment)
    if not any(answer["suspects"] for answer in answers if answer["kind"] == "random"):
        raise WrongResult(f"names, {place}: expected suspects among files of random names, found none")
    for kind in KINDS:
        found = found_in(table_of(str(folder / "lake"), kind), data.checksums)
        if (found.rows, found.checksums) != (data.rows, data.checksums):
            raise WrongResult(f"names, {place}, {kind}: expected {data.rows} rows, found {found}")
    return answers


# --- Looking up ---


def looked_up(options: RunOptions) -> list[LookUps]:
    """For each size, on the local disk and over S3."""
    found = []
    for size in SIZES:
        with scratch_folder() as folder:
            count = options.count(size, 200)
            options.report_progress(f"names: making a ledger of {count:,} files")
            ledger = make_ledger(folder / "lake", count)
            options.report_progress(f"names: looking up among {count:,} files")
            found.append(LookUps(ledger, _looked_up_in(folder, options)))
    return found


def _looked_up_in(folder: Path, options: RunOptions) -> dict[str, list[dict[str, Any]]]:
    batches = options.count(BATCHES_OF_NEW_FILES, 3)
    module = "benchmarks.ledger.look_up"
    runs: dict[str, list[dict[str, Any]]] = {place: [] for place in PLACES}
    with stand_in({"lake": folder / "lake"}, latency_secs=LATENCY_SECS) as server:
        for _ in range(options.rounds):
            runs["local disk"].append(run_module(module, folder / "lake", batches))
            with temporary_variables(server.environment):
                runs["S3"].append(run_module(module, "s3://lake/", batches))
    return runs


def opened_simulated(options: RunOptions) -> LookUps:
    """A ledger that is too large to be written, opened on the local disk."""
    count = options.count(SIMULATED, 200)
    options.report_progress(f"names: opening a simulated ledger of {count:,} files")
    with scratch_folder() as folder:
        ledger = make_ledger(folder / "lake", count, sparse_run)
        runs = [run_module("benchmarks.ledger.look_up", folder / "lake", 0) for _ in range(options.rounds)]
        return LookUps(ledger, {"local disk": runs})


def lives(options: RunOptions) -> dict[int, dict[str, Any]]:
    """By files in a commit at full size, what the ledger wrote over its life. One round: no time is measured."""
    found = {}
    for each in LIVES:
        files, per_commit = options.count(1_000_000, 400), options.count(each, 10)
        options.report_progress(f"names: {files:,} files in commits of {per_commit:,}")
        found[each] = run_module("benchmarks.ledger.lifetime", files, per_commit)
    return found


# --- Rebuilding, and races ---


def rebuilt(options: RunOptions) -> list[dict[str, Any]]:
    """The rebuild, then the races. One round: making the table takes longer than all of them."""
    many = ManyFiles(options.count(1_000_000, 400), options.count(10_000, 100), ROWS_PER_FILE)
    options.report_progress(f"names: rebuilding the ledger of a table of {many.files:,} files")
    with scratch_folder() as folder:
        data = Dataset("names", options.scale, str(folder / "landing"), EVENT_SCHEMA, 0, {}, 0, 0, 0, ())
        work = Work("names_rebuild", data, str(folder / "out"), 1 + RACES, options.cores, options=asdict(many))
        work = replace(work, settings={"pattern": "**/*.json", "compression": "none"})
        (folder / "landing").mkdir()
        answers, _ = options.process(work, folder, {})
        dropped = NEW * 10 * (3 + 2 * RACES)
        rows = many.files * many.rows_per_file
        expected = Found(rows + dropped, {"n": _sum(0, dropped) + _sum(1_000_000, rows)}, None)
        found = found_in(work.table(0))
        if replace(found, commits=None) != expected or answers[0]["known"] != min(NEW, many.per_commit):
            raise WrongResult(f"names, rebuild: expected {expected}, found {found} and {answers[0]}")
    answers[0]["rows"] = rows
    return answers


def _sum(first: int, count: int) -> int:
    return count * (2 * first + count - 1) // 2


# --- Latency ---


def latencies(options: RunOptions) -> dict[str, dict[str, Any]]:
    """By kind of names, the seconds of each file from its arrival until its rows are visible, and the number of new
    files among the suspects; none, if all files arrive together. The kinds run one after the other."""
    drops = options.count(DROPS, 3)
    found: dict[str, dict[str, Any]] = {}
    for kind in DROPPED_KINDS:
        options.report_progress(f"names: {drops} files dropped into a running job: {kind}")
        paths = [name.rpartition("/")[2] + ".gz" for name in names(kind, drops + latency.WARM_UP)]
        settings = {"pattern": "**/*.json.gz"}
        with scratch_folder() as folder:
            seen = latency.observe(folder, drops, options, name_of=paths.__getitem__, settings=settings)
            sequence_of = latency.sequences(folder / "table", len(paths))
            secs = [one.secs for one in seen.latencies(sequence_of)]
        found[kind] = {"secs": secs, "suspects": seen.suspects}
    return found
