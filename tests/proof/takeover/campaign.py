"""Campaign 7: tables of the first Blizzard and Penguin go on under this one, with nothing lost and nothing doubled."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from blizzard.errors import BlizzardError, RecoveryError
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from spark_job.loop.files import recovery, source, takeover
from spark_job.ports.source import Recovered
from spark_job.ports.table import Txn
from tests.proof.campaign import Failed, Fault, Run, check_shown
from tests.proof.spark_session import session
from tests.proof.takeover.older_table import Age, Form, OlderTable
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import run

CASES = tuple(product(Age, Form))
SHOWN = 5
SHOWN_BY = {
    "a refused table is a fresh start": (*Age, Form.PENGUIN),
    "of two commits of one second the older counts": (Age.IN_A_CHECKPOINT, Form.ONE_PROGRAM),
    "a part of a file is taken over as all of it": (*Age, Form.ONE_PROGRAM),
}
"""The tables that come first where this is broken on purpose, so that it is found soon."""
DOUBLED = r"^\d+ records doubled: "
MISSING = r"^\d+ records missing: "
NOT_REFUSED = r"^not refused$"
BEGUN_ANEW = rf"{DOUBLED}|{NOT_REFUSED}"
"""What comes of a state that nobody sees: with the other file it is read again, without it the job does not refuse."""
TABLES_OF = {
    ("spark",): "of these with Spark",
    ("auto",): "of these with the local engine if it can",
    ("spark", "auto"): "of these with both engines in turn",
}
"""Counts, by the engines of the jobs."""


class Takeover:
    name = "takeover"
    about = "tables written by the first Blizzard and by Penguin go on under this one"
    variants: Mapping[str, Fault] = {
        "the first Blizzard's state is ignored": Fault("what it ingested is in the table twice", BEGUN_ANEW),
        "a state that was an older commit's is taken over": Fault(
            "what its newest commit holds is in the table twice", BEGUN_ANEW
        ),
        "of two commits of one second the older counts": Fault(
            "what the newer one holds is in the table twice", DOUBLED
        ),
        "files below its watermarks are asked of the table": Fault(
            "its rows do not say their files, so they are read again", DOUBLED
        ),
        "a part of a file is taken over as all of it": Fault("the rest of the file is never read", MISSING),
        "whatever sorts below its watermarks counts as seen": Fault("files that land later are never read", MISSING),
        "a refused table is a fresh start": Fault(
            "a job begins to ingest though nothing says what is in the table", NOT_REFUSED
        ),
    }

    def __init__(self, cases: Sequence[tuple[Age, Form]] = CASES) -> None:
        self._cases = cases
        self.wanted = [case_of(age, form) for age, form in cases]

    def run(self, run: Run) -> None:
        """Each case once, in an order of the seed's, then again."""
        spark = session(run.folder)
        broken = _VARIANTS[run.variant]() if run.variant else _nothing()
        mixed = Random(run.seed).sample(self._cases, len(self._cases))
        cases = sorted(mixed, key=lambda case: not {*case} <= {*SHOWN_BY.get(run.variant, ())})
        with broken:
            for number, rng in run.rounds():
                folder = run.folder / f"{number}"
                folder.mkdir()
                age, form = cases[number % len(cases)]
                _Round(run, f"round {number}", age, form, rng, folder, spark).go()
                shutil.rmtree(folder)
        if not run.variant and run.counts["rounds"] >= len(cases):
            check_shown(run, self.wanted)


def case_of(age: Age, form: Form) -> str:
    """The name under which it is counted."""
    return f"{form}, {age}"


class _Round:
    """One table: its past, whether it is refused if that is unclear, and its going on."""

    def __init__(
        self, run: Run, title: str, age: Age, form: Form, rng: Random, folder: Path, spark: Callable[[], SparkSession]
    ) -> None:
        self._run = run
        self._rng = rng
        self._age, self._form = age, form
        dated = rng.random() < 0.7
        settings = {"checkpoint": {"interval_files": rng.choice([2, 5, 100])}}
        self._engines = rng.choice([*TABLES_OF])
        self._lake = EngineLake(folder, spark, settings, chosen=rng.choice(self._engines))
        if dated:
            self._lake.settings["partition_columns"] = {"date": "string"}
            self._lake.table_settings["partition_by"] = ["date"]
        coarse = rng.random() < 0.5
        self._older_table = OlderTable(self._lake, form, rng, dated, coarse_clock=coarse)
        shape = f"{'dated' if dated else 'flat'}, its clock counts {'seconds' if coarse else 'milliseconds'}"
        self._steps = [f"{title}, seed {run.seed}: {form}, {age}; {shape}; engines {' and '.join(self._engines)}"]

    def go(self) -> None:
        with closing(self._lake):
            self._go()

    def _go(self) -> None:
        self._run.say(self._steps[0])
        self._have_a_past()
        if self._form is not Form.ONE_PROGRAM:
            self._is_refused_without_its_file()
            self._is_refused_before_penguin_is_done()
        self._goes_on()
        self._run.counts["tables taken over"] += 1
        self._run.counts[TABLES_OF[self._engines]] += 1
        self._run.counts[case_of(self._age, self._form)] += 1
        self._run.counts["records"] += sum(len(content) for content in self._older_table.files.values())

    def _have_a_past(self) -> None:
        older_table, rng = self._older_table, self._rng
        older_table.create()
        for number in range(2, 2 + rng.randint(2, 4)):
            batch = [
                older_table.land(f"{number}-{letter}", day=rng.randint(1, 3)) for letter in "ab"[: rng.randint(1, 2)]
            ]
            older_table.ingest(*batch)
            self._step(f"the first Blizzard ingested {', '.join(batch)}")
        if self._form is Form.ONE_PROGRAM and rng.random() < 0.7:
            partly = older_table.land("6-partly", records=30)
            older_table.ingest(partly, partly=partly)
            self._step(f"and {older_table.ingested[partly]} records of {partly}")
            older_table.land("1-not-yet", day=rng.randint(1, 3))
        older_table.grow_old(self._age)
        older_table.wait_until_newer()
        self._run.counts["commits of the first Blizzard"] += len(older_table.states) - 1

    def _is_refused_without_its_file(self) -> None:
        """What Penguin wrote does not say which files of the source are in the table."""
        copy = self._lake.copy
        kept = copy.read_text()
        copy.unlink()
        self._is_refused("without the file that says what was ingested", "would double its rows")
        copy.write_text('{"schema_version": 1, "watermark": "date=2026-01-02/2-a.ndjson.gz", "last_update_ts": 1}')
        self._is_refused("with a file of one watermark for all", "would double its rows")
        copy.write_text(kept)

    def _is_refused_before_penguin_is_done(self) -> None:
        """What Blizzard wrote and Penguin has not committed is in the table's folder, and counts as ingested."""
        older_table, lake = self._older_table, self._lake
        path = older_table.land("7-uncommitted", day=self._rng.randint(1, 3))
        older_table.ingest(path, committed=False)
        self._is_refused("before Penguin has committed what is there", "are in no commit")
        older_table.commit_rest()
        older_table.wait_until_newer()
        shutil.rmtree(lake.copy.parent / "events_landing", ignore_errors=True)

    def _is_refused(self, when: str, why: str) -> None:
        self._step(f"a job runs {when}")
        versions, copies = self._lake.versions(), self._copies()
        try:
            self._take_turns()
            self._lake.run()
        except RecoveryError as error:
            if why not in str(error):
                self._fail(f"refused, but with another reason: {error}")
        else:
            self._fail("not refused")
        if self._lake.versions() != versions:
            self._fail("refused, but something was committed")
        if (now := self._copies()) != copies:
            self._fail(f"refused, but a state was published: {sorted(now.items() ^ copies.items())}")
        self._run.counts["refused with the reason"] += 1

    def _copies(self) -> dict[str, bytes]:
        """Of each source's state, the first Blizzard's among them."""
        return {file.name: file.read_bytes() for file in self._lake.copy.parent.glob("*_checkpoint.json")}

    def _goes_on(self) -> None:
        older_table, rng, lake = self._older_table, self._rng, self._lake
        self._arrive("8-new", "1-late")
        older_table.announce(*rng.sample(sorted(older_table.files), min(3, len(older_table.files))))
        if rng.random() < 0.5:
            self._step("two jobs take it over at once")
            lake.meanwhile["recovered"] = self._other_job
        self._job("the takeover", late=rng.random() < 0.5)
        self._arrive("9-next", "0-later")
        if rng.random() < 0.3:
            self._step("the job ends after its first step, and is started again")
            self._take_turns()
            job = lake.job()
            job.sweep(late=False, record_if_empty=True)
            job.ingest.step(draining=True)
        self._job("the next run", late=True)
        older_table.announce(*older_table.files)
        self._job("each event once more", late=True)
        if not lake.logged("state_taken_over"):
            self._fail("no job said that it took a state over")

    def _take_turns(self) -> None:
        """The next job has another engine than the one before, if this table is of both."""
        at = self._engines.index(self._lake.chosen)
        self._lake.chosen = self._engines[(at + 1) % len(self._engines)]

    def _other_job(self) -> None:
        self._take_turns()
        run(self._lake.job())

    def _arrive(self, *names: str) -> None:
        """Above the watermarks, below them, and in a partition that is new."""
        landed = [self._older_table.land(name, day=self._rng.randint(1, 3)) for name in names]
        landed.append(self._older_table.land(f"{names[0]}-day", day=self._rng.randint(4, 9)))
        self._step(f"{', '.join(landed)} land")

    def _job(self, title: str, *, late: bool) -> None:
        self._step(f"{title}, {'with' if late else 'without'} a late sweep")
        self._take_turns()
        try:
            self._lake.run(late=late)
        except BlizzardError as error:
            self._fail(f"the job does not go on: {type(error).__name__}: {error}")
        self._run.counts["runs"] += 1
        self._compare(whole=late)

    def _compare(self, *, whole: bool) -> None:
        """Each record by its id, which names file and number. What lies below a watermark is in after a late sweep."""
        rows = self._lake.rows_unsorted()
        found, expected = Counter(row["id"] for row in rows), Counter(self._older_table.expected())
        unknown = sorted(found.keys() - expected.keys())
        doubled = sorted(name for name in found - expected if name in expected)
        missing = sorted(expected - found) if whole else []
        for what, records in {"doubled": doubled, "unknown": unknown, "missing": missing}.items():
            if records:
                self._fail(f"{len(records)} records {what}: {records[:SHOWN]}")
        wrong = [row for row in rows if not _is_where_it_says(row)]
        if wrong:
            self._fail(f"{len(wrong)} rows say that they are of another file: {wrong[:SHOWN]}")
        if self._lake.letters():
            self._fail(f"dead letters for good files: {self._lake.letters()[:SHOWN]}")

    def _step(self, text: str) -> None:
        self._steps.append(text)

    def _fail(self, why: str) -> None:
        raise Failed(why, self._steps)


def _is_where_it_says(row: Mapping[str, Any]) -> bool:
    source = row.get("_source")
    return source is None or row["id"] == f"{source['file']}#{source['row']}"


# -- what is broken on purpose, around the product


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _ignored() -> Iterator[None]:
    """Nobody sees that there was a first Blizzard."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(takeover, "decode_app_id", lambda app_id, **_: None))
        stack.enter_context(patch.object(recovery, "copy_of", _own_copy))
        yield


def _own_copy(codec: CheckpointCodec, _read: Any = recovery.copy_of) -> tuple[Checkpoint | None, Checkpoint | None]:
    copy, rest = _read(codec)
    return (copy if copy is not None and copy.sequence >= 0 else None), rest


@contextmanager
def _older() -> Iterator[None]:
    """The newest commit of the first Blizzard, and what it had then written beside the table, are not seen."""
    newest = takeover.newest_legacy

    def older(txns: Iterable[Txn], identity: Any) -> takeover.Legacy | None:
        seen = [*txns]
        first = newest(seen, identity)
        return newest([txn for txn in seen if newest([txn], identity) != first], identity)

    with patch.object(recovery, "newest_legacy", older):
        yield


@contextmanager
def _timed() -> Iterator[None]:
    """Times alone put the commits of the first Blizzard in order."""

    def by_time(txns: Iterable[Txn], identity: Any) -> takeover.Legacy | None:
        found = (takeover.newest_legacy([txn], identity) for txn in txns)
        return max(
            filter(None, found), key=lambda one: (one.committed_ts or 0.0, -one.state.delta_version), default=None
        )

    with patch.object(recovery, "newest_legacy", by_time):
        yield


@contextmanager
def _taken_over(change: Callable[[Checkpoint], Checkpoint]) -> Iterator[None]:
    """The first Blizzard's state is another one."""

    def recover(*args: Any, **named: Any) -> Recovered[Checkpoint]:
        found = recovery.recover(*args, **named)
        return found if found.checkpoint.sequence >= 0 else replace(found, checkpoint=change(found.checkpoint))

    with patch.object(source, "recover", recover):
        yield


def _asked() -> AbstractContextManager[None]:
    """Nothing counts as seen because of its age."""
    return _taken_over(lambda state: replace(state, before_ledger_ts=None))


def _seen() -> AbstractContextManager[None]:
    """Everything does."""
    return _taken_over(lambda state: replace(state, before_ledger_ts=1e12))


def _whole() -> AbstractContextManager[None]:
    return _taken_over(lambda state: replace(state, files=dict.fromkeys(state.files, FINISHED)))


@contextmanager
def _fresh_start() -> Iterator[None]:
    with patch.object(source, "recover", _never_refused):
        yield


def _never_refused(table: Any, store: Any, identity: Any, **named: Any) -> Recovered[Checkpoint]:
    try:
        return recovery.recover(table, store, identity, **named)
    except RecoveryError:
        return Recovered(Checkpoint(identity.pipeline, identity.source))


_VARIANTS = {
    "the first Blizzard's state is ignored": _ignored,
    "a state that was an older commit's is taken over": _older,
    "of two commits of one second the older counts": _timed,
    "files below its watermarks are asked of the table": _asked,
    "a part of a file is taken over as all of it": _whole,
    "whatever sorts below its watermarks counts as seen": _seen,
    "a refused table is a fresh start": _fresh_start,
}
CAMPAIGN = Takeover()
