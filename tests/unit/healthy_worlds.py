"""Random worlds without a fault, of which it is known what becomes of each file: an audit must find nothing wrong."""

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from blizzard.audit import audit as audits
from blizzard.audit.announced import Announced
from blizzard.audit.reach import PARTITION_FILTER, PATTERN
from blizzard.audit.report import AuditReport, Verdict
from blizzard.audit.source import AuditedSource
from blizzard.state.checkpoint import Checkpoint
from tests.unit.operator_world import HOUR_SECS, OperatorWorld

TORN = b"\x1f\x8b\x08"
TEMPLATE = "date=%Y-%m-%d"


@dataclass
class HealthyWorld:
    """`fates`: what has to become of each file that is there. `rows`: how many each content brings to the table, those
    of files included that are gone."""

    world: OperatorWorld
    chance: random.Random
    fates: dict[str, str] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    new: set[str] = field(default_factory=set)
    gone: int = 0
    audits: int = 0

    def live(self, rounds: int) -> None:
        for number in range(rounds):
            for _ in range(self.chance.randint(0, 6)):
                self._land(first=number == 0)
            self._check(self.world.audit(), pending=self.new)
            self._run()
            self._check(self.world.audit(later_secs=HOUR_SECS), pending=set())
            self._tidy_up()
            self._check(self.world.audit(later_secs=HOUR_SECS), pending=set())

    def live_during_an_audit(self) -> None:
        """A run commits new files after the source is listed, and before the table is read."""
        self._land(first=False)
        whole = audits.read_announced

        def read_and_run(source: AuditedSource, checkpoint: Checkpoint) -> Announced:
            found = whole(source, checkpoint)
            self._run()
            return found

        with patch.object(audits, "read_announced", read_and_run):
            report = self.world.audit(later_secs=HOUR_SECS)
        self._check(report, pending=set())

    def committed_files(self) -> list[str]:
        """Those that have rows, and are still there as they were committed."""
        return sorted(path for path, fate in self.fates.items() if fate == "committed" and self.rows[path])

    def _run(self) -> None:
        self.world.run()
        if self.chance.random() < 0.3:  # somebody runs it once more, for nothing
            self.world.run()
        self.new.clear()

    def _land(self, *, first: bool) -> None:
        path = f"{self._folder(first=first)}{self.chance.randrange(16**6):06x}.ndjson.gz"
        known = [path for path, fate in self.fates.items() if fate == "committed" and path not in self.new]
        if known and self.world.settings.get("on_overwrite") and self.chance.random() < 0.3:
            self._overwrite(self.chance.choice(known))
            return
        kind = self.chance.choice(["good", "good", "good", "dirty", "empty", "torn", "other"])
        if kind == "other":
            path = path.removesuffix(".gz")
            self.world.land_bytes(path, b"of no concern")
            self.fates[path] = PATTERN
            return
        if kind == "torn":
            self.world.land_bytes(path, TORN)
        else:
            ids = [
                None if kind == "dirty" and self.chance.random() < 0.4 else f"{n}" for n in range(self._length(kind))
            ]
            self.world.land(path, *ids)
        is_closed = self.world.settings.get("partition_filter") and self._is_old(path)
        self.fates[path] = PARTITION_FILTER if is_closed else "dead_lettered" if kind == "torn" else "committed"
        if self.fates[path] == "committed":
            self.rows[path] = sum(each is not None for each in ids)
        if not is_closed:
            self.new.add(path)

    def _overwrite(self, path: str) -> None:
        self.world.land(path, "other", f"{self.chance.random()}")
        self.new.add(path)
        if self.rows[path]:
            self.fates[path] = "dead_lettered"
        else:  # nothing of it is in the table, so it is like a new file
            self.rows[path] = 2

    def _length(self, kind: str) -> int:
        return 0 if kind == "empty" else self.chance.choice([1, 3, 40])

    def _folder(self, *, first: bool) -> str:
        if not self.world.settings.get("partition_filter"):
            return self.chance.choice(["", "a/", "a/b/", "c d/"])
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

    def _check(self, report: AuditReport, *, pending: set[str]) -> None:
        self.audits += 1
        expected = Counter("pending" if path in pending else fate for path, fate in self.fates.items())
        skipped = {rule: expected.pop(rule) for rule in (PATTERN, PARTITION_FILTER) if rule in expected}
        found = {
            fate: getattr(report, fate) for fate in ("committed", "dead_lettered", "pending") if getattr(report, fate)
        }
        assert (report.verdict, report.notices) == (Verdict.GOOD, []), report
        assert (found, report.skipped_by) == (dict(expected), skipped), report
        assert (report.objects, report.missing, report.doubled, report.changed) == (len(self.fates), 0, 0, 0)
        assert report.gone == self.gone
        if not pending:
            assert report.rows.found == report.rows.expected == self.rows.total(), report


def healthy_world(folder: Path, seed: int) -> HealthyWorld:
    chance = random.Random(seed)
    settings: dict[str, object] = {"checkpoint": {"interval_files": chance.choice([1, 2, 100]), "interval_secs": 0}}
    if chance.random() < 0.3:  # files are read in slices
        settings["checkpoint"] = {"interval_files": 3, "interval_bytes": 50, "interval_secs": 0}
    if chance.random() < 0.4:
        settings["on_overwrite"] = "dead_letter"
    if chance.random() < 0.5:
        settings["partition_filter"] = {"prefix_template": TEMPLATE, "lookback": 7}
    return HealthyWorld(OperatorWorld(folder, settings), chance)
