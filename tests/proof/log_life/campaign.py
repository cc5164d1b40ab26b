"""Campaign `log-life`: checkpoints of the log in every form, its clean-up, and changes that people make to a table.

A round is one event on a table: some files arrive and are ingested, perhaps not all of them; the event happens; then
the job continues, or refuses with the reason until somebody has repaired the table. After each round every record of
the source is compared with every row.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from blizzard.errors import BlizzardError, RecoveryError
from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.state.checkpoint import FINISHED, Checkpoint, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from infra.local.demo.reconcile import Reconciliation
from spark_job.loop.files import recovery, source
from spark_job.ports.source import Recovered
from spark_job.ports.table import FileTable
from spark_job.table.delta_table import DeltaSourceTable
from tests.proof.breaks import without_gaps
from tests.proof.campaign import Failed, Fault, Run, check_shown
from tests.proof.ledger.small import small_ledger
from tests.proof.log_life import checkpoints, events, rows
from tests.proof.log_life.events import EVENTS, FROM_COPY, FROM_ROWS, REFUSED, Event
from tests.proof.log_life.table import BATCH, Life
from tests.proof.spark_session import session
from tests.spark.lake import run

ALL_BATCHES = 99
EVENTS_OF_A_BROKEN_LIFE = 2
EPOCH = 50
"""Events on one table; then another table begins, so that the log stays as short as it is in a month."""


@contextmanager
def older_state_as_current() -> Iterator[None]:
    def unrepaired(base: Checkpoint, version: int, *_: object) -> Checkpoint:
        return replace(base, sequence=version)

    with patch.object(recovery, "repair", unrepaired), patch.object(LedgerKeeper, "_fill", without_gaps):
        yield


def missing_txn_as_fresh_start() -> AbstractContextManager[object]:
    return patch.object(DeltaSourceTable, "holds_rows", lambda table: False)


def commit_before_refusal() -> AbstractContextManager[object]:
    def committing(
        table: FileTable, store: ObjectStore, identity: SourceIdentity, **named: Any
    ) -> Recovered[Checkpoint]:
        try:
            return recovery.recover(table, store, identity, **named)
        except RecoveryError:
            begun = Checkpoint(pipeline=identity.pipeline, source=identity.source, sequence=0)
            table.append(None, sequence=0, user_metadata=encode(begun))
            raise

    return patch.object(source, "recover", committing)


def part_as_whole() -> AbstractContextManager[object]:
    whole = recovery.repair

    def repaired(*given: Any) -> Checkpoint:
        made = whole(*given)
        return replace(made, files=dict.fromkeys(made.files, FINISHED))

    return patch.object(recovery, "repair", repaired)


def rows_instead_of_ledger() -> AbstractContextManager[object]:
    def found(keeper: LedgerKeeper, checkpoint: Checkpoint, paths: Iterable[str]) -> Mapping[str, LedgerEntry]:
        in_table = keeper._ask_table(SequenceRange(0, checkpoint.sequence))
        return {entry.path: entry for entry in in_table if entry.path in {*paths}}

    return patch.object(LedgerKeeper, "find", found)


def future_believed() -> AbstractContextManager[object]:
    return patch.object(recovery, "_discard_newer_copy", lambda *_: None)


@dataclass(frozen=True, slots=True)
class Broken:
    """`shown_by`: the first event on the table, so that the fault is found soon."""

    fault: Fault
    by: Callable[[], AbstractContextManager[object]]
    shown_by: Callable[[Life, random.Random], object]


VARIANTS: Mapping[str, Broken] = {
    "an older state is taken for the current one": Broken(
        Fault("files of commits that the log's clean-up removed are ingested again", r"\bdoubled +[1-9]"),
        older_state_as_current,
        checkpoints.the_log_is_cleaned_up_and_the_copy_is_old,
    ),
    "a repair takes a part of a file for all of it": Broken(
        Fault("the rest of the file is never read", r"\bmissing +[1-9]"),
        part_as_whole,
        checkpoints.the_log_is_cleaned_up_in_the_middle_of_a_file,
    ),
    "what the table has no rows of is new": Broken(
        Fault("rows that a user deleted come back with the next event of their file", r"\bunexpected +[1-9]"),
        rows_instead_of_ledger,
        rows.a_user_deletes_all_rows_of_some_files,
    ),
    "what lies beside a table that was made again is believed": Broken(
        Fault("sweeps begin where the former table ended, so its files stay out", r"\bmissing +[1-9]"),
        future_believed,
        events.the_table_is_dropped_but_not_what_blizzard_put_beside_it,
    ),
    "a missing Txn is taken for a fresh start": Broken(
        Fault("a table that lost its log, or a wrong name, is not refused", r"': not refused$"),
        missing_txn_as_fresh_start,
        events.the_rows_are_copied_without_the_log,
    ),
    "a job commits its Txn before it is refused": Broken(
        Fault(
            "no row is added, but a version; the next job would take it for a start of its own",
            r"': refused, and something was committed: version",
        ),
        commit_before_refusal,
        events.the_source_has_another_name,
    ),
}


class LogLife:
    """`events`: those that may happen."""

    name = "log-life"
    about = "Delta's checkpoints and clean-up; the table restored, copied, renamed, made again; wrong names"
    variants: Mapping[str, Fault] = {variant: broken.fault for variant, broken in VARIANTS.items()}

    def __init__(self, events: Sequence[Event] = EVENTS) -> None:
        self._events = events
        refusals = [REFUSED for event in events if event.refused]
        repairs = [event.repaired for event in events if event.repaired]
        self.wanted = [*(event.name for event in events), *dict.fromkeys([*refusals, *repairs])]

    def run(self, run: Run) -> None:
        """Raises Failed, also if every event happened but a required count is zero."""
        broken = VARIANTS[run.variant].by() if run.variant else nullcontext()
        with small_ledger(random.Random(run.seed)), broken:
            spark = session(run.folder)
            lives = _lives(run, self._events, spark)
            for (number, rng), (life, event) in zip(run.rounds(), lives, strict=False):
                run.say(f"round {number}: {event.name}")
                form, partitioned = life.cleanups, life.partitioned
                try:
                    _Round(run, life, event, rng).go()
                except Failed as failed:
                    if len(life.history) == 1:
                        raise
                    run.say(f"round {number} failed; once more on a new table: {event.name}")
                    raise _alone(
                        run, failed, number, event, _life(run.folder / "alone", spark, partitioned, form)
                    ) from failed
        if not run.variant and run.counts["rounds"] >= len(self._events):
            check_shown(run, self.wanted)


def _alone(run: Run, failed: Failed, number: int, event: Event, life: Life) -> Failed:
    """Repeats the round on a new table. Returns its failure if it fails there too, otherwise the known one."""
    try:
        _Round(replace(run, counts=Counter()), life, event, run.rng(number)).go()
    except Failed as alone:
        return Failed(alone.why, [f"a new table, with the randomness of round {number}", *alone.steps])
    except Exception as error:  # noqa: BLE001 - what was found stands, whatever becomes of the shorter way there
        return Failed(failed.why, [*failed.steps, f"(on a new table the last of these breaks: {error})"])
    return Failed(failed.why, [*failed.steps, "(on a new table the last of these alone does no harm)"])


def _life(folder: Path, spark: Callable[[], SparkSession], partitioned: bool, cleanups: int | None = None) -> Life:
    folder.mkdir()
    return Life(folder, spark, BATCH, partitioned=partitioned, cleanups=cleanups)


def _lives(run: Run, possible: Sequence[Event], spark: Callable[[], SparkSession]) -> Iterator[tuple[Life, Event]]:
    """Each event once, in an order that the seed decides, then at random. A new table begins from time to time; with a
    variant, early, because some faults show only with the first event on a table."""
    rng = random.Random(run.seed)
    first = VARIANTS[run.variant].shown_by if run.variant else None
    age = 0
    while True:
        life = _life(run.folder / f"life-{age}", spark, partitioned=(run.seed + age) % 2 == 0)
        order = [*rng.sample(possible, len(possible)), *rng.choices(possible, k=EPOCH - len(possible))]
        shown = sorted(order, key=lambda event: event.do is not first)
        for event in shown[:EVENTS_OF_A_BROKEN_LIFE] if first else order:
            yield life, event
        age += 1


class _Round:
    def __init__(self, run: Run, life: Life, event: Event, rng: random.Random) -> None:
        self._run = run
        self._life = life
        self._event = event
        self._rng = rng

    def go(self) -> None:
        life, rng, before = self._life, self._rng, Counter(self._life.started)
        life.history.append(self._event.name)
        life.arrive(rng)
        life.begin(rng.randint(1, 2))
        if self._event.refused and not life.own_rows():  # a table without rows begins anew, and is right to
            life.arrive_above_all(rng)
            life.begin(ALL_BATCHES)
        self._event.do(life, rng)
        self._repaired()
        if self._event.refused:
            self._is_refused()
            self._event.cure(life)
        if not self._event.calm:
            life.announce_removed(rng)
            if rng.random() < 0.5:
                life.arrive(rng)
        self._goes_on()
        self._run.counts[self._event.name] += 1
        self._run.counts.update(life.started - before)
        for form in life.cleaned_behind:
            self._run.counts[f"clean-ups behind {form}"] += 1
        life.cleaned_behind.clear()

    def _is_refused(self) -> None:
        versions, copies = self._life.committed()
        try:
            run(self._event.job(self._life), late=True)
        except BlizzardError as error:
            if not re.search(self._event.refused, str(error), re.DOTALL):
                self._fail(f"refused, but with another reason: {error}")
        else:
            self._fail("not refused")
        versions_now, copies_now = self._life.committed()
        if versions_now != versions:
            self._fail(f"refused, and something was committed: versions {versions[-3:]} became {versions_now[-3:]}")
        if copies_now != copies:
            self._fail(f"refused, and a state was published: {sorted(copies_now.items() ^ copies.items())}")
        self._run.counts[REFUSED] += 1

    def _goes_on(self) -> None:
        """A sweep begins with the copy of the state, which may be another table's until a job has recovered; the next
        sweep finds what it left out."""
        verdict = self._after_a_run()
        if verdict.missing and replace(verdict, missing=[]).good:
            self._run.counts["found by the next sweep"] += 1
            verdict = self._after_a_run()
        self._run.counts["records"] = max(self._run.counts["records"], verdict.rows_in)
        repaired = self._repaired()
        if not verdict.good:
            self._fail("; ".join(line for line in verdict.lines() if not line.endswith(" 0")))
        if self._event.repaired and self._event.repaired not in repaired:
            self._fail(f"expected {self._event.repaired}, found {sorted(repaired) or 'none'}")

    def _repaired(self) -> set[str]:
        """What the jobs since the last call repaired their state from."""
        lines = self._life.logged("state_repaired")
        repaired = [FROM_ROWS if line["from_sequence"] is None else FROM_COPY for line in lines]
        self._run.counts.update(repaired)
        self._life.events.clear()
        return {*repaired}

    def _after_a_run(self) -> Reconciliation:
        last_rows = self._life.last_rows() if self._life.gone else {}
        try:
            self._life.run(late=True)
        except BlizzardError as error:
            self._fail(f"the job does not go on: {type(error).__name__}: {error}")
        from_table = any(event["from_table"] for event in self._life.logged("ledger_rebuilding"))
        if self._life.logged("state_repaired") and (from_table or not self._life.receipts_whole):
            self._life.repair_from_rows(last_rows)
        return self._life.judged()

    def _fail(self, why: str) -> None:
        steps = [f"the table lives through: {name}" for name in self._life.history]
        raise Failed(f"log-life, seed {self._run.seed}, after {self._event.name!r}: {why}", steps)


CAMPAIGN = LogLife()
