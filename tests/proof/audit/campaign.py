"""Campaign `audit`: random worlds of which it is known what became of each file, with and without a fault.

An audit of a healthy world must find nothing wrong, and the right sums, and so must an examination by the doctor. Of
the same world with a planted fault, both must find it under its right name.
"""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow.compute as pc
from deltalake import write_deltalake

from blizzard.audit import audit, checks, compare
from blizzard.audit.gaps import Pieces
from blizzard.audit.report import AuditReport
from blizzard.doctor import state as doctor_state
from blizzard.doctor import table as doctor_table
from blizzard.state.checkpoint_codec import CheckpointCodec
from tests.proof.campaign import Failed, Fault, Run
from tests.unit.doctor_world import DoctorWorld, wrong
from tests.unit.healthy_worlds import RETRIED, STOPPED, HealthyWorld, healthy_world
from tests.unit.operator_world import HOUR_SECS, IDENTITY, kinds, paths

WORLDS, AUDITED, EXAMINED = "healthy worlds", "audits without an alarm", "examinations without an alarm"
ROUNDS_OF_A_WORLD = 3
DELETED = "a row deleted by hand"
DOUBLED = "a file doubled by a foreign writer"
TABLE_FIRST = "the table is read before the source is listed"
BY_NUMBER = "rows are counted, and their numbers are not compared"
NO_GAPS = "commits that the ledger has lost are taken for ones without files"
NO_LETTERS = "nobody looks for the dead letter of overwritten content"
NO_ROWS = "the rows of the table are not compared"
REFUSED_WAIT = "the doctor takes refused content for files that wait"
NOBODY_ELSE = "the doctor takes every commit for one of Blizzard"
LETTERS, WRITERS = "state.dead-letters", "table.other-writers"
RECEIPTS, MANIFEST = "state.receipts", "state.manifest"
"""Ids of the doctor's checks."""


@dataclass(frozen=True, slots=True)
class Planted:
    """`plant` returns the file that it is about, or None if it cannot be planted in this world. `finds`: whether an
    audit shows it under its right name. `check`: the doctor's that shows it, too; None: it is no matter of the
    doctor."""

    name: str
    plant: Callable[[DoctorWorld, list[str]], str | None]
    finds: Callable[[AuditReport, str], bool]
    check: str | None = None


def _delete_rows(world: DoctorWorld, files: list[str]) -> str | None:
    if not files:
        return None
    quoted = files[0].replace("'", "''")
    world.table().delete(f"_source.file = '{quoted}'")
    return files[0]


def _double_rows(world: DoctorWorld, files: list[str]) -> str | None:
    if not files:
        return None
    table = world.table().to_pyarrow_table()
    rows = table.filter(pc.equal(pc.struct_field(table["_source"], "file"), files[0]))
    write_deltalake(world.table(), rows, mode="append")
    return files[0]


def _change_content(world: DoctorWorld, files: list[str]) -> str | None:
    if not files or world.settings.get("on_overwrite"):
        return None
    world.land(files[0], "other", "content")
    return files[0]


def _lose_receipt(world: DoctorWorld, files: list[str]) -> str | None:
    """The newest one, if its commit brought rows of each of its files: of others the table does not know."""
    copy = CheckpointCodec(world.store, IDENTITY).read_copy()
    if copy is None or copy.receipt is None:
        return None
    newest = world.state / "receipts" / copy.receipt
    lines = json.loads(gzip.decompress(newest.read_bytes()))["files"]
    if not all(line["rows"] and line["path"] in files for line in lines):
        return None
    newest.unlink()
    return newest.name


def _wipe_manifest(world: DoctorWorld, files: list[str]) -> str | None:
    shutil.rmtree(world.state / "pending")
    return ""


def _forge_segment(world: DoctorWorld, files: list[str]) -> str | None:
    newest = max((world.state / "pending").iterdir(), key=lambda file: file.name)
    number = int(newest.stem) + 1
    (newest.parent / f"{number:020d}.json").write_text('{"format": 1}')
    return ""


def _restore(world: DoctorWorld, files: list[str]) -> str | None:
    """To its first version, if rows came later."""
    table = world.table()
    rows = table.to_pyarrow_table(columns=["_source"]).num_rows
    if not table.version():
        return None
    table.restore(0)
    return "" if world.table().to_pyarrow_table(columns=["_source"]).num_rows < rows else None


def _lose_event(world: DoctorWorld, files: list[str]) -> str | None:
    """Of a file in a folder that no sweep looks at."""
    if not world.settings.get("partition_filter"):
        return None
    path = "date=2020-01-01/lost.ndjson.gz"
    world.land(path, "lost")
    return path


FAULTS = (
    Planted(DELETED, _delete_rows, lambda report, path: paths(report, "rows_deleted") == [path], WRITERS),
    Planted(DOUBLED, _double_rows, lambda report, path: paths(report, "doubled") == [path], WRITERS),
    Planted("a changed etag", _change_content, lambda report, path: paths(report, "changed") == [path]),
    Planted("a lost receipt", _lose_receipt, lambda report, path: kinds(report) == ["ledger_incomplete"], RECEIPTS),
    Planted("a wiped manifest", _wipe_manifest, lambda report, path: kinds(report) == ["manifest_wiped"]),
    Planted("a forged segment", _forge_segment, lambda report, path: kinds(report) == ["segment_unreadable"], MANIFEST),
    Planted("a restored table", _restore, lambda report, _: {*kinds(report)} >= {"table_restored"}, WRITERS),
    Planted("a lost event", _lose_event, lambda report, path: paths(report, "missing") == [path]),
)


class Audits:
    name = "audit"
    about = "random worlds: no false alarm in healthy ones, and each planted fault found under its right name"
    variants: Mapping[str, Fault] = {
        TABLE_FIRST: Fault("what is committed meanwhile is not in the sums", "^a healthy world"),
        BY_NUMBER: Fault("doubled rows get another name", f"^{DOUBLED} was not found"),
        NO_GAPS: Fault("files whose receipt was lost are pending, and their rows nobody's", "^a lost receipt"),
        NO_LETTERS: Fault("refused content counts as changed or pending", "^a healthy world"),
        NO_ROWS: Fault("deleted rows are not found", f"^{DELETED} was not found"),
        REFUSED_WAIT: Fault(
            "the doctor warns of a backlog that no run can work off", "^a healthy world.*state.backlog"
        ),
        NOBODY_ELSE: Fault("nobody learns who deletes rows", "was not found by the doctor"),
    }
    wanted = (WORLDS, AUDITED, EXAMINED, STOPPED, RETRIED, *(f"found: {fault.name}" for fault in FAULTS))

    def run(self, run: Run) -> None:
        with ExitStack() as stack:
            if run.variant:
                stack.enter_context(BREAKS[run.variant]())
            for number, rng in run.rounds():
                with TemporaryDirectory(dir=run.folder) as folder:
                    made = healthy_world(Path(folder), rng.getrandbits(32))
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
        if not (made.world.state / "receipts").is_dir():
            return
        fault = FAULTS[number % len(FAULTS)]
        before = made.world.audit(later_secs=HOUR_SECS)
        path = fault.plant(made.world, made.committed_files())
        if path is None:
            return
        report = made.world.audit(later_secs=HOUR_SECS)
        if not fault.finds(report, path):
            raise Failed(f"{fault.name} was not found under its name: {report!s:.2000}", seed)
        if fault.plant is _lose_receipt and (before.committed, before.pending) != (report.committed, report.pending):
            raise Failed(f"{fault.name} changes the sums: {report!s:.2000}", seed)
        alarms = {each for each, _ in wrong(made.world.examine(later_secs=HOUR_SECS))} - {LETTERS}
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
    with patch.object(doctor_state, "_refused", lambda state: 0):
        yield


@contextmanager
def _nobody_else() -> Iterator[None]:
    with patch.object(doctor_table, "_is_ours", lambda commit: True):
        yield


BREAKS: Mapping[str, Callable[[], Any]] = {
    TABLE_FIRST: _table_first,
    BY_NUMBER: _by_number,
    NO_GAPS: _no_gaps,
    NO_LETTERS: _no_letters,
    NO_ROWS: _no_rows,
    REFUSED_WAIT: _refused_wait,
    NOBODY_ELSE: _nobody_else,
}
