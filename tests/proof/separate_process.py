"""A campaign in a process of its own, so that none can harm another one, and whoever watches it stays awake."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.campaigns import load
from tests.proof.outcome import End, Outcome

SAY_EVERY_SECS = 0.2
OVERTIME_SECS = 900.0
"""How long after its minutes a campaign may still be at its last round."""
LAST_WORD_SECS = 15.0
"""How long one that was interrupted may take to say what it has done; what it said before counts otherwise."""
LOG_LINES = 15
Said = Callable[[str, Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A campaign, the module that has it, and how it is to be run. `files`, `spark_share`: as in `Run`."""

    campaign: str
    module: str
    variant: str
    seed: int
    minutes: float
    files: int
    spark_share: float


def run_apart(task: Task, folder: Path, said: Said) -> Outcome:
    """Run the module's campaign and wait for it, or for Ctrl-C, which ends it with what it has done so far. `said` is
    told what it does, and called every second at least."""
    ours, theirs = multiprocessing.Pipe()
    log = folder / "log.txt"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_work, args=(theirs, task, folder, log))
    plan = task.campaign, task.variant, task.seed, task.minutes
    outcome = Outcome(*plan, End.BROKE, 0.0, {}, files=task.files, spark_share=task.spark_share)
    began = time.monotonic()
    process.start()
    theirs.close()
    try:
        outcome = _followed(ours, outcome, began + task.minutes * 60 + OVERTIME_SECS, said)
    except KeyboardInterrupt:
        os.kill(process.pid or 0, signal.SIGINT)
        outcome = replace(_followed(ours, outcome, time.monotonic() + LAST_WORD_SECS, said), end=End.INTERRUPTED)
    finally:
        _ended(process)
    outcome = replace(outcome, secs=time.monotonic() - began)
    if outcome.end is End.BROKE:
        return replace(outcome, why="\n".join([outcome.why, *_last_lines(log)]))
    return outcome


def _followed(ours: Connection, outcome: Outcome, until_ts: float, said: Said) -> Outcome:
    """What it says, to its last word."""
    now, counts = "starting", outcome.counts
    while time.monotonic() < until_ts:
        try:
            if ours.poll(1.0):
                end, now, counts, steps = ours.recv()
                if end is not None:
                    return replace(outcome, end=end, why=now, counts=counts, steps=steps)
        except (EOFError, ConnectionError):
            return replace(outcome, counts=counts, why=f"its process ended without a last word, while: {now}")
        said(now, counts)
    return replace(outcome, counts=counts, why=f"it did not end in time, while: {now}")


def _ended(process: multiprocessing.process.BaseProcess) -> None:
    """Nothing of its session is left: Spark's workers are in groups of their own."""
    process.join(10.0)
    for other in _of_session(process.pid or 0):
        with suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)
    process.join()


def _of_session(number: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, _, rest = stat.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[3]) == number:
                yield int(pid)


def _last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []


def _work(theirs: Connection, task: Task, folder: Path, log: Path) -> None:
    """In the other process. Ctrl-C is meant for the one that watches, so this one is in a group of its own."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    counts: Counter[str] = Counter()
    last_ts = 0.0

    def say(now: str) -> None:
        nonlocal last_ts
        if time.monotonic() - last_ts >= SAY_EVERY_SECS:
            last_ts = time.monotonic()
            theirs.send((None, now, dict(counts), ()))

    def ended(end: End, why: str = "", steps: tuple[str, ...] = ()) -> None:
        theirs.send((end, why, dict(counts), steps))

    try:
        found = load(task.module)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            budget = Budget(time.monotonic, until_ts=time.monotonic() + task.minutes * 60)
            options = task.files, counts, task.spark_share
            found.run(Run(task.seed, budget, Path(scratch), task.variant, say, *options))
    except Failed as failed:
        as_meant = not task.variant or found.variants[task.variant].finds(failed.why)
        ended(End.FAILED if as_meant else End.OTHERWISE, failed.why, tuple(failed.steps))
    except KeyboardInterrupt:
        ended(End.INTERRUPTED)
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        ended(End.BROKE, traceback.format_exc())
    else:
        ended(End.PASSED)
