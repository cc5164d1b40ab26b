"""Random worlds without a fault, of which it is known what becomes of each file: an audit and an examination must find
nothing wrong."""

import gzip
import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from blizzard.audit import audit as audits
from blizzard.audit.announced import Announced
from blizzard.audit.reach import PARTITION_FILTER, PATTERN
from blizzard.audit.report import AuditReport, Verdict
from blizzard.audit.source import AuditedSource
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.settled_letters import Settlement, letters_with_settlements
from spark_job.main import EXIT_OK, EXIT_STOPPED
from spark_job.tasks.engine import Engine
from tests.unit.doctor_world import DoctorWorld, wrong
from tests.unit.interruptions import StopsAfter, unavailable
from tests.unit.operator_world import HOUR_SECS, IDENTITY, kinds, paths
from tests.unit.world_repairs import repair_something

TORN = b"\x1f\x8b\x08"
TEMPLATE = "date=%Y-%m-%d"
ENDINGS = (".ndjson.gz", ".zip")
ODD = "aZ09-_.~ +%&='#;,@!()[]{}üßé漢🎈"
KINDS = ("good", "good", "good", "dirty", "dirty", "empty", "torn", "long", "other", "zip", "wider")
"""Of new files."""
LIMIT_BYTES = 2_048
LONG = "x" * LIMIT_BYTES
OVERWRITTEN = "overwritten files whose rows were replaced"
STOPPED, RETRIED = "runs that were stopped in between", "runs that failed, and were repeated"
DELETED, UNDONE = "rows that an owner deleted", "deletions that an owner undid"
BESIDE, OTHERS = "files of another source of the table", "rows of another source that an owner deleted"
ANNOUNCED = "files that an event announced"
LIVES = (OVERWRITTEN, STOPPED, RETRIED, DELETED, UNDONE, BESIDE, OTHERS, ANNOUNCED)
"""Counts."""
TILL: Mapping[str, object] = {
    "uri": "till",
    "pattern": "**/*.ndjson.gz",
    "schema": "id STRING NOT NULL, amount BIGINT",
    "settle_delay_secs": 0,
}
"""The other source."""


@dataclass
class HealthyWorld:
    """`fates`: what has to become of each file that is there. `rows`: how many each content brings to the table, those
    of files included that are gone. `good`: how many of them the file itself has, as it is. `bad`: the numbers of its
    records that are refused, and `refused` those of which the table has no row yet. `too_long`: files that a limit
    refuses. `deleted`: how many rows of each content an owner has. `is_restored`: whether an owner has undone a
    deletion, as some do in a world that `has_owner`. `counts`: what has come about, by its name."""

    world: DoctorWorld
    chance: random.Random
    has_owner: bool = False
    fates: dict[str, str] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    good: Counter[str] = field(default_factory=Counter)
    bad: dict[str, Sequence[int]] = field(default_factory=dict)
    refused: dict[str, Sequence[int]] = field(default_factory=dict)
    too_long: set[str] = field(default_factory=set)
    deleted: Counter[str] = field(default_factory=Counter)
    is_restored: bool = False
    new: set[str] = field(default_factory=set)
    gone: int = 0
    audits: int = 0
    examinations: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def live(self, rounds: int) -> None:
        for number in range(rounds):
            for _ in range(self.chance.randint(0, 6)):
                self._land(first=number == 0)
            if self.world.beside:
                self._land_beside(f"{number}")
            self._check(self.world.audit(), pending=self.new)
            self._run()
            self._check(self.world.audit(later_secs=HOUR_SECS), pending=set())
            self._tidy_up()
            self._check(self.world.audit(later_secs=HOUR_SECS), pending=set())
            if repair_something(self):
                self._check(self.world.audit(later_secs=HOUR_SECS), pending=set())
            self._examine()

    def live_during_an_audit(self) -> None:
        """After the source is listed a file arrives, and before the table is read a run commits it, with one that came
        before; or no run does yet."""
        self._land(first=False)
        whole = audits.read_announced
        listed, waiting = dict(self.fates), self.new
        is_run = self.chance.random() < 0.7

        def read_and_run(source: AuditedSource, checkpoint: Checkpoint) -> Announced:
            if self.chance.random() < 0.5:
                self._land(first=False, overwrites=False)
            found = whole(source, checkpoint)
            if is_run:
                self.world.run()
                self.new = set()
            return found

        with patch.object(audits, "read_announced", read_and_run):
            report = self.world.audit(later_secs=HOUR_SECS)
        everything, self.fates = self.fates, listed
        self._check(report, pending=set() if is_run else waiting)
        self.fates = everything
        self._check(self.world.audit(later_secs=HOUR_SECS), pending=self.new)
        self._run()
        self._examine()

    @property
    def has_deletions(self) -> bool:
        return self.is_restored or bool(self.counts[DELETED] or self.counts[OTHERS])

    def committed_files(self) -> list[str]:
        """Those that have rows, and are still there as they were committed."""
        return sorted(path for path, fate in self.fates.items() if fate == "committed" and self.rows[path])

    def letters(self) -> Iterator[tuple[dict[str, Any], Settlement | None]]:
        return letters_with_settlements(self.world.store, IDENTITY.state_prefix, IDENTITY.source_id, [])

    # -- runs

    def _run(self) -> None:
        """To the end. Before, some are stopped after a commit, and some fail; what they leave is no fault either."""
        if self.chance.random() < 0.3:
            self._run_in_part(StopsAfter(self.chance.randint(1, 2)), nullcontext(), STOPPED)
        if self.chance.random() < 0.3:
            self._run_in_part(StopsAfter(0), unavailable(self.chance.randint(1, 25)), RETRIED)
        self.world.run()
        if self.chance.random() < 0.3:  # somebody runs it once more, for nothing
            self.world.run()
        self.new.clear()

    def _run_in_part(self, stop: "StopsAfter", storage: AbstractContextManager[None], counted: str) -> None:
        with storage:
            code = self.world.run_until(stop.event, stop.log)
        self.counts[counted] += code == EXIT_STOPPED if counted == STOPPED else code != EXIT_OK
        self._check_in_part(self.world.audit())

    def _check_in_part(self, report: AuditReport) -> None:
        """Files wait, or are in progress. Those with rows are waiting if the table does not have all of these."""
        self.audits += 1
        self._check_notices(report)
        assert (report.objects, report.missing, report.doubled, report.changed) == (len(self.fates), 0, 0, 0), report
        table = Counter(path for path, _ in self.world.rows())
        waiting = {path for path in self.new if self._brings_rows(path)}
        finished = {path for path in waiting if table[path] >= self.rows[path]}
        assert len(waiting - finished) <= report.pending <= len(self.new), (report, waiting, finished)

    def _brings_rows(self, path: str) -> bool:
        return self.fates[path] == "committed" and self.rows[path] > 0

    # -- files

    def _land(self, *, first: bool, overwrites: bool = True) -> None:
        known = [path for path, fate in self.fates.items() if fate == "committed" and path not in self.new]
        known = [path for path in known if path not in self.deleted]
        if overwrites and known and self.world.settings.get("on_overwrite") and self.chance.random() < 0.3:
            self._overwrite(self.chance.choice(known))
        elif known and self.chance.random() < 0.1:
            self._copy(self.chance.choice(known))
        else:
            self._create(self.chance.choice(KINDS), self._folder(first=first))
        newest = next(reversed(self.fates))
        if newest in self.new and self.chance.random() < 0.3:
            self.world.announce(newest)
            self.counts[ANNOUNCED] += 1

    def _create(self, kind: str, folder: str) -> None:
        path = f"{folder}{self._name()}{ENDINGS[kind == 'zip']}"
        if kind == "other":
            path = f"{path}.txt"
            self.world.land_bytes(path, b"of no concern")
            self.fates[path] = PATTERN
            return
        records = [self._record(kind, number) for number in range(self._length(kind))]
        if kind == "long" and records:
            records[0] = {"id": LONG, "amount": 0}
            self.too_long.add(path)
        self.world.land_bytes(path, TORN if kind == "torn" else self._body(kind, records))
        self.good[path] = sum(each is not None for each in records)
        self.bad[path] = [number for number, each in enumerate(records) if each is None]
        self._expect(path, is_torn=kind == "torn")

    def _record(self, kind: str, number: int) -> dict[str, Any] | None:
        """None is one that is refused."""
        if kind == "dirty" and self.chance.random() < 0.4:
            return None
        wider = {f"more{self.chance.randrange(3)}": "x"} if kind == "wider" else {}
        return {"id": f"{number}", "amount": number, **wider}

    def _body(self, kind: str, records: list[dict[str, Any] | None]) -> bytes:
        lines = [json.dumps(each or {"amount": 0}) + "\n" for each in records]
        if kind != "zip":
            return gzip.compress("".join(lines).encode(), mtime=0)
        made, half = io.BytesIO(), len(lines) // 2
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("a.ndjson", "".join(lines[:half]))
            archive.writestr("b.ndjson", "".join(lines[half:]))
        return made.getvalue()

    def _expect(self, path: str, *, is_torn: bool = False) -> None:
        is_closed = self.world.settings.get("partition_filter") and self._is_old(path)
        fate = "dead_lettered" if is_torn or path in self.too_long else "committed"
        self.fates[path] = PARTITION_FILTER if is_closed else fate
        if self.fates[path] == "committed":
            self.rows[path], self.refused[path] = self.good[path], self.bad[path]
        if not is_closed:
            self.new.add(path)

    def _overwrite(self, path: str) -> None:
        records: list[dict[str, Any] | None] = [{"id": f"{self.chance.random()}"} for _ in range(2)]
        is_torn = self.chance.random() < 0.3
        self.world.land_bytes(
            path, TORN if is_torn else self._body("zip" if path.endswith(".zip") else "good", records)
        )
        self.new.add(path)
        self.too_long.discard(path)
        had_rows, is_replaced = bool(self.rows[path]), self.world.settings["on_overwrite"] == "replace"
        if not had_rows:  # nothing of it is in the table, so it is like a new file
            self.refused[path] = ()
        if is_torn or (had_rows and not is_replaced):
            self.fates[path] = "dead_lettered"
            return
        self.counts[OVERWRITTEN] += had_rows
        self.good[path] = self.rows[path] = 2
        self.bad[path] = self.refused[path] = ()

    def _copy(self, path: str) -> None:
        """Under another name it is another file."""
        folder = self._folder(first=False)
        copied = f"{folder}{self._name()}{next(ending for ending in ENDINGS if path.endswith(ending))}"
        self.world.land_bytes(copied, (self.world.folder / "incoming" / path).read_bytes())
        self.good[copied], self.bad[copied] = self.good[path], self.bad[path]
        self.too_long |= {copied} if path in self.too_long else set()
        self._expect(copied)

    def _name(self) -> str:
        number = f"{self.chance.randrange(16**6):06x}"
        return number if self.chance.random() < 0.6 else "".join(self.chance.choices(ODD, k=8)) + number

    def _length(self, kind: str) -> int:
        return 0 if kind == "empty" else self.chance.choice([1, 3, 40])

    def _folder(self, *, first: bool) -> str:
        if not self.world.settings.get("partition_filter"):
            odd = "".join(random.Random(f"{self.world.folder.name}").choices(ODD, k=5))
            return self.chance.choice(["", "a/", "a/b/", "c d/", f"x{odd}x/"])
        days = self.chance.choice([0, 1, 40] if first else [0, 1])
        return f"{(datetime.now(UTC) - timedelta(days=days)).strftime(TEMPLATE)}/"

    def _is_old(self, path: str) -> bool:
        return path < (datetime.now(UTC) - timedelta(days=20)).strftime(TEMPLATE)

    def _tidy_up(self) -> None:
        """What owners of a lake do."""
        settled = [path for path in self.fates if path not in self.new]
        if settled and self.chance.random() < 0.4:
            path = self.chance.choice(settled)
            (self.world.folder / "incoming" / path).unlink()
            self.gone += self.fates.pop(path) in ("committed", "dead_lettered")
        if self.rows.total() and self.chance.random() < 0.3:
            self.world.table().optimize.compact()
        if self.has_owner and self.chance.random() < 0.5:
            self._delete_rows()

    def _delete_rows(self) -> None:
        """Some of one file, or all, and some for a moment only; and those of the other source."""
        if self.world.beside and self.chance.random() < 0.5:
            of_other = self.world.table().delete(f"_source.source <> '{IDENTITY.source_id}'")["num_deleted_rows"]
            self.counts[OTHERS] += of_other
        found = sorted({path for path, _ in self.world.rows()})
        if not found:
            return
        path = self.chance.choice(found)
        name, nth = path.replace("'", "''"), self.chance.choice([1, 2, 3])
        table, version = self.world.table(), self.world.table().version()
        of_file = f"_source.source = '{IDENTITY.source_id}' AND _source.file = '{name}'"
        count = table.delete(f"{of_file} AND _source.row % {nth} = 0")["num_deleted_rows"]
        if count and self.chance.random() < 0.3:
            self.world.table().restore(version)
            self.is_restored = True
            self.counts[UNDONE] += 1
        elif count:
            self.deleted[path] += count
            self.counts[DELETED] += count

    def _land_beside(self, name: str) -> None:
        """Some have the name of a file of this source."""
        names = sorted(path for path in self.fates if path.endswith(ENDINGS[0]))
        path = self.chance.choice(names or [f"{name}{ENDINGS[0]}"])
        file = self.world.folder / "till" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_bytes(self._body("good", [{"id": f"till {name}", "amount": 1}]))
            self.counts[BESIDE] += 1

    # -- what must be found

    def _check(self, report: AuditReport, *, pending: set[str]) -> None:
        self.audits += 1
        expected = Counter("pending" if path in pending else fate for path, fate in self.fates.items())
        skipped = {rule: expected.pop(rule) for rule in (PATTERN, PARTITION_FILTER) if rule in expected}
        found = {
            fate: getattr(report, fate) for fate in ("committed", "dead_lettered", "pending") if getattr(report, fate)
        }
        self._check_notices(report)
        assert (found, report.skipped_by) == (dict(expected), skipped), report
        assert (report.objects, report.missing, report.doubled, report.changed) == (len(self.fates), 0, 0, 0)
        assert report.gone == self.gone
        if not pending:
            expected_rows = self.rows.total(), self.rows.total() - self.deleted.total()
            assert (report.rows.expected, report.rows.found) == expected_rows, report

    def _check_notices(self, report: AuditReport) -> None:
        """What owners have done is said, and is no fault."""
        expected = ["rows_deleted"] * bool(self.deleted) + ["table_restored"] * self.is_restored
        expected = sorted(expected + ["source_empty"] * bool(self.gone and not self.fates))
        assert (report.verdict, kinds(report)) == (Verdict.NOTES if expected else Verdict.GOOD, expected), report
        assert paths(report, "rows_deleted") == sorted(self.deleted), report
        assert (report.rows.gone, report.rows.unexplained) == (self.deleted.total(), 0), report

    def _examine(self) -> None:
        self.examinations += 1
        alarms = wrong(self.world.examine(later_secs=HOUR_SECS))
        assert sorted(each for each, _ in alarms) == sorted(self.worth_a_look()), alarms

    def worth_a_look(self) -> list[str]:
        """For the doctor: dead letters and other writers always, and files if the pattern matches none."""
        has_letters = any(settlement is None for _, settlement in self.letters())
        none_matches = bool(self.fates) and {*self.fates.values()} == {PATTERN}
        expected = ["storage.pattern"] * none_matches + ["state.dead-letters"] * has_letters
        return expected + ["table.other-writers"] * self.has_deletions


def healthy_world(folder: Path, seed: int, spark: Callable[[], Engine] | None = None) -> HealthyWorld:
    """`spark`: makes an engine that replaces rows, in a world where these of overwritten files are replaced, too."""
    chance = random.Random(seed)
    settings: dict[str, object] = {
        "pattern": "**/*.{ndjson.gz,zip}",
        "new_fields": chance.choice(["add", "count", "rescue"]),
        "checkpoint": {"interval_files": chance.choice([1, 2, 100]), "interval_secs": 0},
        "limits": {"max_record_bytes": LIMIT_BYTES},
    }
    if chance.random() < 0.3:  # files are read in slices
        settings["checkpoint"] = {"interval_files": 3, "interval_bytes": 50, "interval_secs": 0}
    if chance.random() < 0.4:
        settings["on_overwrite"] = "dead_letter"
    if chance.random() < 0.5:
        settings["partition_filter"] = {"prefix_template": TEMPLATE, "lookback": 7}
    if spark is not None:
        settings["on_overwrite"] = "replace"
    engine = "local" if spark is None else "auto"
    beside = {"till": {**TILL}} if chance.random() < 0.3 else {}
    (folder / "till").mkdir(exist_ok=True)
    return HealthyWorld(
        DoctorWorld(folder, settings, {"engine": engine}, beside, spark=spark), chance, chance.random() < 0.25
    )
