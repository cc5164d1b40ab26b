"""Campaign `audit`: random worlds of which it is known what became of each file, with and without a fault.

An audit of a healthy world must find nothing wrong, and the right sums, and so must an examination by the doctor. Of
the same world with a planted fault, both must find it under its right name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from blizzard.audit import audit, checks, compare, row_numbers, taken_out
from blizzard.audit.deletions import Deletions
from blizzard.audit.gaps import Pieces
from blizzard.doctor import state as doctor_state
from blizzard.doctor import table as doctor_table
from blizzard.ledger import entry, ledger
from spark_job.engines.spark.engine import SparkEngine
from tests.proof.audit.faults import (
    ANEW,
    CONTENTS,
    COVERED,
    DELETED,
    DOUBLED,
    FAULTS,
    FORGED,
    LOST_LETTERS,
    NOBODYS,
    OTHERS,
    lose_receipt,
)
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.spark_session import session
from tests.unit.doctor_world import wrong
from tests.unit.healthy_worlds import LIVES, HealthyWorld, healthy_world
from tests.unit.operator_world import HOUR_SECS
from tests.unit.world_repairs import REPAIRS

WORLDS, AUDITED, EXAMINED = "healthy worlds", "audits without an alarm", "examinations without an alarm"
ROUNDS_OF_A_WORLD = 3
ROUNDS_OF_SPARK = 8
"""Of so many rounds one has a world in which the rows of overwritten files are replaced, which only Spark does."""
TABLE_FIRST = "the table is read before the source is listed"
BY_NUMBER = "rows are counted, and their numbers are not compared"
NO_GAPS = "commits that the ledger has lost are taken for ones without files"
NO_LETTERS = "nobody looks for the dead letter of overwritten content"
NO_ROWS = "the rows of the table are not compared"
REFUSED_WAIT = "the doctor takes refused content for files that wait"
NOBODY_ELSE = "the doctor takes every commit for one of Blizzard"
NOT_LOOKED_AT = "letters are not compared with the ledger"
ANY_CONTENT = "rows of any content count as those of their file"
NOT_PUT_BACK = "records that were put back are not counted as rows"
NO_CHECKSUMS = "row numbers are compared by how many there are, the first and the last"
ALL_EXPLAINED = "every row that is gone counts as deleted on purpose"
NO_STRANGERS = "nobody looks for rows of others"
LETTERS = "state.dead-letters"
"""Id of one of the doctor's checks, which finds what worlds without a fault have."""


class Audits:
    name = "audit"
    about = "random worlds: no false alarm in healthy ones, and each planted fault found under its right name"
    variants: Mapping[str, Fault] = {
        TABLE_FIRST: Fault("what is committed meanwhile is not in the sums", "^a healthy world"),
        BY_NUMBER: Fault("doubled rows get another name", f"^{DOUBLED} was not found"),
        NO_GAPS: Fault("files whose receipt was lost are pending, and their rows nobody's", "^a lost receipt"),
        NO_LETTERS: Fault("refused content counts as changed or pending", "^a healthy world"),
        NO_ROWS: Fault("deleted rows are not found", f"^({DELETED} was not found|a healthy world)"),
        REFUSED_WAIT: Fault(
            "the doctor warns of a backlog that no run can work off", "^a healthy world.*state.backlog"
        ),
        NOBODY_ELSE: Fault("nobody learns who deletes rows", "was not found by the doctor"),
        NOT_LOOKED_AT: Fault(
            "letters that are gone are not missed, nor rows that have the numbers of others",
            f"^(({LOST_LETTERS}|doubled letters|{FORGED}) was not found|a healthy world)",
        ),
        ANY_CONTENT: Fault("rows of before a file was overwritten are not found", f"^{CONTENTS} was not found"),
        NOT_PUT_BACK: Fault("repaired files have rows that nobody brought", "^a healthy world"),
        NO_CHECKSUMS: Fault("a forged row makes up for a deleted one", f"^{COVERED} was not found"),
        ALL_EXPLAINED: Fault("rows that nobody deleted on purpose are no fault", f"^{ANEW} has the verdict notes"),
        NO_STRANGERS: Fault("rows of others are not found", f"^({NOBODYS}|{OTHERS}) was not found"),
    }
    wanted = (
        WORLDS,
        AUDITED,
        EXAMINED,
        *LIVES,
        *REPAIRS,
        *(f"found: {fault.name}" for fault in FAULTS),
    )

    def run(self, run: Run) -> None:
        with ExitStack() as stack:
            if run.variant:
                stack.enter_context(BREAKS[run.variant]())
            for number, rng in run.rounds():
                is_of_spark = not run.variant and number % ROUNDS_OF_SPARK == ROUNDS_OF_SPARK - 1
                spark = partial(SparkEngine, session(run.folder)) if is_of_spark else None
                with TemporaryDirectory(dir=run.folder) as folder:
                    made = healthy_world(Path(folder), rng.getrandbits(32), spark)
                    self._round(run, made, number)

    def _round(self, run: Run, made: HealthyWorld, number: int) -> None:
        seed = [f"seed {run.seed}, round {number}"]
        try:
            made.live(ROUNDS_OF_A_WORLD)
            if any(made.rows.values()):
                made.live_during_an_audit()
        except AssertionError as error:
            raise Failed(f"a healthy world gives an alarm, or wrong sums: {error!s:.2000}", seed) from error
        run.counts[WORLDS] += 1
        run.counts[AUDITED] += made.audits
        run.counts[EXAMINED] += made.examinations
        run.counts.update(made.counts)
        if made.has_deletions or not made.fates or not (made.world.state / "receipts").is_dir():
            return  # what owners have done would be found beside the fault
        fault = FAULTS[number % len(FAULTS)]
        before, usual = made.world.audit(later_secs=HOUR_SECS), {LETTERS, *made.worth_a_look()}
        path = fault.plant(made.world, made.committed_files())
        if path is None:
            return
        report = made.world.audit(later_secs=HOUR_SECS)
        if not fault.finds(report, path):
            raise Failed(f"{fault.name} was not found under its name: {report!s:.2000}", seed)
        if report.verdict is not fault.verdict:
            raise Failed(f"{fault.name} has the verdict {report.verdict}, not {fault.verdict}: {report!s:.2000}", seed)
        if fault.plant is lose_receipt and (before.committed, before.pending) != (report.committed, report.pending):
            raise Failed(f"{fault.name} changes the sums: {report!s:.2000}", seed)
        alarms = {each for each, _ in wrong(made.world.examine(later_secs=HOUR_SECS))} - usual
        if alarms != ({fault.check} if fault.check else set()):
            raise Failed(f"{fault.name} was not found by the doctor under its name: {alarms}", seed)
        run.counts[f"found: {fault.name}"] += 1


CAMPAIGN = Audits()


@contextmanager
def _table_first() -> Iterator[None]:
    whole_run, whole_read = audit.Audit.run, audit.read_snapshot

    def run(self: audit.Audit) -> None:
        early = whole_read(self.source)
        with patch.object(audit, "read_snapshot", lambda source: early):
            whole_run(self)

    with patch.object(audit.Audit, "run", run):
        yield


@contextmanager
def _by_number() -> Iterator[None]:
    with patch.object(compare, "are_distinct", lambda runs: True):
        yield


@contextmanager
def _no_gaps() -> Iterator[None]:
    def fill(source: Any, gaps: Any, ask_table: Any, **more: Any) -> Pieces:
        return Pieces(from_receipts=sum(1 for _ in gaps))

    with patch.object(audit, "fill_gaps", fill):
        yield


@contextmanager
def _no_letters() -> Iterator[None]:
    with patch.object(checks, "_with_letters", lambda source, changed: set()):
        yield


@contextmanager
def _no_rows() -> Iterator[None]:
    with patch.object(compare.Comparison, "_judge", lambda *_: None):
        yield


@contextmanager
def _refused_wait() -> Iterator[None]:
    with patch.object(doctor_state, "_refused", lambda *_: set()):
        yield


@contextmanager
def _nobody_else() -> Iterator[None]:
    with patch.object(doctor_table, "_is_ours", lambda commit: True):
        yield


@contextmanager
def _not_looked_at() -> Iterator[None]:
    with patch.object(compare, "compare_letters", lambda *_: None):
        yield


@contextmanager
def _any_content() -> Iterator[None]:
    with patch.object(compare.Comparison, "_name_other_content", lambda *_: None):
        yield


@contextmanager
def _not_put_back() -> Iterator[None]:
    whole = entry.merged

    def merged(entries: Iterable[entry.LedgerEntry]) -> entry.LedgerEntry:
        given = [*entries]
        return whole([each for each in given if each.state is not entry.FileState.REPLAYED] or given)

    with patch.object(entry, "merged", merged), patch.object(ledger, "merged", merged):
        yield


@contextmanager
def _no_checksums() -> Iterator[None]:
    with (
        patch.object(row_numbers, "checksum_of_range", lambda *_: 0),
        patch.object(row_numbers, "joined", lambda *_: 0),
    ):
        yield


@contextmanager
def _all_explained() -> Iterator[None]:
    with patch.object(taken_out, "deletions_of", lambda gone, *_: Deletions(sum(gone.values()))):
        yield


@contextmanager
def _no_strangers() -> Iterator[None]:
    with patch.object(audit, "strangers_of", lambda *_: []):
        yield


BREAKS: Mapping[str, Callable[[], Any]] = {
    TABLE_FIRST: _table_first,
    BY_NUMBER: _by_number,
    NO_GAPS: _no_gaps,
    NO_LETTERS: _no_letters,
    NO_ROWS: _no_rows,
    REFUSED_WAIT: _refused_wait,
    NOBODY_ELSE: _nobody_else,
    NOT_LOOKED_AT: _not_looked_at,
    ANY_CONTENT: _any_content,
    NOT_PUT_BACK: _not_put_back,
    NO_CHECKSUMS: _no_checksums,
    ALL_EXPLAINED: _all_explained,
    NO_STRANGERS: _no_strangers,
}
