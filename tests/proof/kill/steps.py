"""Steps at which a job can be killed: for each, the harness wraps a function of the product and sends SIGKILL there.

All of it runs in the forked process, never in the campaign.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import spark_job.loop.files.source
from blizzard.errors import CommitOutcomeUnknown
from blizzard.manifest.pending_manifest import Manifest
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from spark_job.table.commit import TableCommits
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.tasks.reader import BatchReader
from tests.proof.kill.names import RANDOM_MOMENT, Whom
from tests.proof.kill.transactions import TRANSACTIONS
from tests.proof.kill.trap import hand_to_reading_processes, set_trap

STORE_CALLS = ("list", "list_folders", "head", "get", "open", "create", "put", "delete")
COMMITS = (*((kind, "commit") for kind in TRANSACTIONS), (TableCommits, "rewrite"))
IN_THE_COMMIT_SECS = 0.3
"""About as long as a commit takes."""


class KillPoint:
    """Kills at the `nth` time that its step is reached. `group`: the process group to kill; 0: this process alone.
    `whom`: if the JVM is to be killed, a step counts only once the job uses it; if the JVM alone, this process keeps
    running."""

    def __init__(self, *, nth: int, group: int, trap: str, seed: str, whom: Whom) -> None:
        self.rng = random.Random(seed)
        self.trap = trap
        self.group = group
        self._outlives = whom is Whom.JVM
        self._waits = whom is not Whom.JOB
        self._left = nth

    def jvm_is_in_use(self) -> None:
        self._waits = False

    def due(self) -> bool:
        if self._waits:
            return False
        self._left -= 1
        return self._left == 0

    def kill(self) -> None:
        if self.group:
            os.killpg(self.group, signal.SIGKILL)
        if self._outlives:
            return
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # so that nothing else runs before the signal arrives

    def before(self, owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
        self._around(owner, name, when, after=False)

    def after(self, owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
        self._around(owner, name, when, after=True)

    def _around(self, owner: Any, name: str, when: Callable[..., bool], *, after: bool) -> None:
        whole = getattr(owner, name)

        def around(*args: Any, **named: Any) -> Any:
            due = when(*args, **named) and self.due()
            if due and not after:
                self.kill()
            answer = whole(*args, **named)
            if due:
                self.kill()
            return answer

        setattr(owner, name, around)


def _is_copy(_: object, key: str, *__: object) -> bool:
    return key.endswith("_checkpoint.json")


def _is_receipt(_: object, key: str, *__: object) -> bool:
    return "/receipts/" in key


def _is_run(_: object, key: str, *__: object) -> bool:
    return key.endswith(".run")


def _is_letter(_: object, key: str, *__: object) -> bool:
    return "/dead_letters/" in key


def _is_report(_: object, key: str, *__: object) -> bool:
    return key.endswith("_sweep.json")


def _both(point: KillPoint, name: str, when: Callable[..., bool], *, after: bool = False) -> None:
    for store in (LocalStore, S3Store):
        (point.after if after else point.before)(store, name, when)


def before_the_read(point: KillPoint) -> None:
    point.before(BatchReader, "read")


def after_the_read(point: KillPoint) -> None:
    point.after(BatchReader, "read")


def in_the_write_of_a_data_file(point: KillPoint) -> None:
    """Spark's workers have the trap from their daemon."""
    hand_to_reading_processes(point.trap)
    whole = BatchReader.read

    def read(*args: Any, **named: Any) -> Any:
        if point.due():
            set_trap(point.trap, point.group, os.getpid())
        return whole(*args, **named)

    BatchReader.read = read  # type: ignore[method-assign]


def before_the_receipt(point: KillPoint) -> None:
    for name in ("put", "create"):
        _both(point, name, _is_receipt)


def after_the_dead_letters(point: KillPoint) -> None:
    _both(point, "put", _is_letter, after=True)


def before_the_commit(point: KillPoint) -> None:
    for owner, name in COMMITS:
        point.before(owner, name)


def in_the_commit(point: KillPoint) -> None:
    """Somewhere while Delta commits: the moment is left to luck."""

    def soon(*_: object, **__: object) -> bool:
        if point.due():
            timer = threading.Timer(point.rng.uniform(0, IN_THE_COMMIT_SECS), point.kill)
            timer.daemon = True
            timer.start()
        return False

    for owner, name in COMMITS:
        point.before(owner, name, soon)


def after_the_commit_and_before_its_answer(point: KillPoint) -> None:
    for owner, name in COMMITS:
        point.after(owner, name)


def before_the_copy(point: KillPoint) -> None:
    _both(point, "put", _is_copy)


def before_the_trim(point: KillPoint) -> None:
    point.before(Manifest, "trim")


def after_the_trim(point: KillPoint) -> None:
    point.after(Manifest, "trim")


def in_recovery(point: KillPoint) -> None:
    """After the table's log was read, after the snapshot was asked, or with a state that nobody uses any more."""
    if point.rng.random() < 0.5:
        point.after(spark_job.loop.files.source, "recover")
        return
    point.after(DeltaSourceTable, point.rng.choice(["commits", "newest_version"]))


def in_the_sweep(point: KillPoint) -> None:
    if point.rng.random() < 0.3:
        _both(point, "put", _is_report)
    else:
        (point.after if point.rng.random() < 0.5 else point.before)(Manifest, "append")


def in_a_merge_of_the_ledger(point: KillPoint) -> None:
    """Before a run is written or right after it, in the thread that merges or in the one that commits."""
    _both(point, "put", _is_run, after=point.rng.random() < 0.5)
    _both(point, "writer", _is_run, after=point.rng.random() < 0.5)


def between_two_calls_of_storage(point: KillPoint) -> None:
    """Any call of the driver, before its effect or after it."""
    after = point.rng.random() < 0.5
    for name in STORE_CALLS:
        _both(point, name, lambda *_, **__: True, after=after)


def when_the_answer_of_a_commit_is_lost(point: KillPoint) -> None:
    """The job is not killed: the commit succeeds, and the job gets an error with unknown outcome."""

    def around(owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def lose(*args: Any, **named: Any) -> Any:
            due, answer = point.due(), whole(*args, **named)
            if due:
                raise CommitOutcomeUnknown("the answer was lost")
            return answer

        setattr(owner, name, lose)

    for owner, name in COMMITS:
        around(owner, name)


Step = Callable[[KillPoint], None]
STEPS = {
    step.__name__.replace("_", " "): step
    for step in (
        before_the_read,
        in_the_write_of_a_data_file,
        after_the_read,
        after_the_dead_letters,
        before_the_receipt,
        before_the_commit,
        in_the_commit,
        after_the_commit_and_before_its_answer,
        before_the_copy,
        before_the_trim,
        after_the_trim,
        in_recovery,
        in_the_sweep,
        in_a_merge_of_the_ledger,
        between_two_calls_of_storage,
        when_the_answer_of_a_commit_is_lost,
    )
}


def prepare(step: str, point: KillPoint) -> None:
    """Does nothing for a job that is not killed, or that the campaign kills from outside."""
    if step and step != RANDOM_MOMENT:
        STEPS[step](point)
