"""What `blizzard audit` says about the demo's lake, beside what the demo has counted itself."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.errors import BlizzardError
from infra.local.demo.reconcile import Reconciliation
from infra.local.processes.checkout import CHECKOUT

COMMAND = "import sys; from blizzard.cli import main; sys.exit(main())"
BAD = "bad"


@dataclass(frozen=True, slots=True)
class Count:
    """The same number by both."""

    what: str
    own: int
    audited: int


@dataclass(frozen=True, slots=True)
class Beside:
    """`report`: the audit's answer, as in docs/cli.md."""

    own: Reconciliation
    report: Mapping[str, Any]

    @property
    def counts(self) -> list[Count]:
        own, report = self.own, self.report
        bad_files = sum("row" not in letter for letter in own.dead_letters)
        return [
            Count("files in the source", own.files, report["objects"]),
            Count("files dead-lettered", bad_files, report["dead_lettered"]),
            Count("files missing", len(own.missing_files), report["missing"]),
            Count("files doubled", len({path for path, _ in own.doubled}), report["doubled"]),
            Count("rows in the table", own.rows_out, report["rows"]["found"]),
        ]

    @property
    def agree(self) -> bool:
        same_verdict = self.own.good == (self.report["verdict"] != BAD)
        return same_verdict and all(count.own == count.audited for count in self.counts)

    def lines(self) -> Iterator[str]:
        yield f"{'':<20} {'own check':>10} {'blizzard audit':>15}"
        for count in self.counts:
            yield f"{count.what:<20} {count.own:>10} {count.audited:>15}"
        yield f"{'verdict':<20} {'good' if self.own.good else 'bad':>10} {self.report['verdict']:>15}"
        yield from (f"  {notice['kind']}: {notice['text']}" for notice in self.report["notices"])


def audit(config: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The answer of the command for the only source of a configuration. Raises BlizzardError if it has none."""
    words = [sys.executable, "-c", COMMAND, "audit", "--json", str(config)]
    done = subprocess.run(words, cwd=CHECKOUT, env=dict(environ), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise BlizzardError(f"blizzard audit ended with exit code {done.returncode}: {done.stderr.strip()}")
    (report,) = json.loads(done.stdout)
    return dict(report)
