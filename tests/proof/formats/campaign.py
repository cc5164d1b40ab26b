"""Campaign `formats`: damaged files of each format. Each record is a right row or a dead letter, and nothing crashes,
hangs or takes more memory than its bound.

Each file is compared with what an independent reader makes of the same bytes. Files are read in processes of their own.
"""

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from infra.local.processes.checkout import CHECKOUT
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.formats.check import FILES
from tests.proof.formats.corpus import KINDS
from tests.proof.formats.variants import VARIANTS
from tests.proof.formats.worker import DONE, HANG_SECS, JUDGING, READING, WRONG, Finding, Worker

FILES_A_ROUND = 250
"""Of each format."""
MOST_FINDINGS = 20
JUDGE_DIED = "files that ended the process of the independent reader"
KEPT = CHECKOUT / "build" / "proof" / "formats"
"""Where files stay for which something was wrong."""


def damaged_files(kind: str) -> str:
    """The name of their count."""
    return f"{FILES} of {kind}"


class Formats:
    name = "formats"
    about = "damaged files of each format: rows are right, or there is a dead letter; no crash, no hang, bounded memory"
    variants: Mapping[str, Fault] = {name: broken.fault for name, broken in VARIANTS.items()}

    def run(self, run: Run, *, workers: "Workers | None" = None, files_a_round: int = FILES_A_ROUND) -> None:
        """Until the budget is spent or `run.files` of each format are read. `workers`: kept by the caller."""
        used = workers or Workers()
        findings: list[Finding] = []
        try:
            for number, _ in run.rounds():
                for kind in self._kinds(run.variant):
                    left = run.files - run.counts[damaged_files(kind)]
                    numbers = range(min(files_a_round, left))
                    if run.variant:
                        broken = VARIANTS[run.variant]
                        numbers = range(broken.first, broken.first + broken.files)
                    seeds = [f"{run.seed}/{number}/{kind}/{at}" for at in numbers]
                    findings += self._read(run, used, kind, seeds)
                    if findings and (run.variant or len(findings) >= MOST_FINDINGS):
                        raise _failed(run, findings)
                if all(run.counts[damaged_files(kind)] >= run.files for kind in KINDS):
                    break
        finally:
            if workers is None:
                used.close()
        if findings:
            raise _failed(run, findings)

    def _kinds(self, variant: str) -> Sequence[str]:
        return [VARIANTS[variant].kind] if variant else [*KINDS]

    def _read(self, run: Run, workers: "Workers", kind: str, seeds: Sequence[str]) -> Iterator[Finding]:
        run.say(f"{kind}: {run.counts[damaged_files(kind)]:,} files")
        secs, hang_secs = 10.0, HANG_SECS
        if run.variant:
            secs, hang_secs = VARIANTS[run.variant].secs, VARIANTS[run.variant].hang_secs or HANG_SECS
        for finding in workers.read(run, kind, seeds, secs, hang_secs):
            yield finding
            if run.variant:
                return
        run.counts[damaged_files(kind)] += len(seeds)


CAMPAIGN = Formats()


class Workers:
    """A process that reads, and a new one when that has died."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def read(
        self, run: Run, kind: str, seeds: Sequence[str], secs: float, hang_secs: float = HANG_SECS
    ) -> Iterator[Finding]:
        """What is wrong with these files. If it is not asked for all of them, the rest is not read."""
        left = [*seeds]
        while left:
            worker = self._worker = self._worker or Worker()
            worker.begin(kind, left, run.variant, secs)
            stage = READING
            try:
                while left:
                    stage, said = worker.next(hang_secs)
                    if stage in (READING, JUDGING):
                        continue
                    seed = left.pop(0)
                    if stage == DONE:
                        run.counts.update(said)
                    elif stage == WRONG:
                        yield from self._wrong(kind, seed, said, left)
                    else:
                        raise RuntimeError(f"the harness failed at {kind} {seed}: {said}")
            except (EOFError, ConnectionError, TimeoutError) as error:
                why = self._end(error, secs, hang_secs)
                seed = left.pop(0)
                if stage == JUDGING:
                    run.counts[JUDGE_DIED] += 1
                else:
                    yield Finding(kind, seed, why)

    def _wrong(self, kind: str, seed: str, why: str, left: Sequence[str]) -> Iterator[Finding]:
        try:
            yield Finding(kind, seed, why)
        except GeneratorExit:
            if left:
                self.close()
            raise

    def _end(self, error: Exception, secs: float, hang_secs: float) -> str:
        """How the process ended, or that it had to be."""
        worker, self._worker = self._worker, None
        assert worker is not None
        if isinstance(error, TimeoutError):
            worker.close()
            return f"it was not read within {hang_secs:.0f} s"
        code = worker.end()
        if code == -signal.SIGPROF:
            return f"it was not read within {secs:g} s of processor time"
        return f"the process that read it was ended by {_signal(code)}"


def _signal(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _failed(run: Run, findings: Sequence[Finding]) -> Failed:
    """The first one as the reason, and one of each kind of reason as a step, with its file."""
    folder = Path(run.folder) if run.variant else KEPT
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.kind, re.sub(r"[0-9]+", "#", finding.why)[:80]), []).append(finding)
    steps = []
    for (kind, _), some in alike.items():
        file = some[0].keep(folder)
        shown = os.path.relpath(file, CHECKOUT) if folder == KEPT else file.name
        steps.append(f"{kind}, {len(some)} files, such as {shown}, of the seed {some[0].seed}: {some[0].why}")
    return Failed(f"{findings[0].why}", steps)
