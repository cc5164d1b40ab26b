"""Where a job can die: each step is a place in the product around which the harness puts a SIGKILL to the process.

All of it runs in the life alone, which was forked to die.
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
from spark_job.table.transaction import Transaction
from spark_job.tasks.reader import SparkReader
from tests.proof.kill.daemon import set_trap
from tests.proof.kill.names import RANDOM_MOMENT, Whom

Die = Callable[[], None]
STORE_CALLS = ("list", "list_folders", "head", "get", "open", "create", "put", "delete")
IN_THE_COMMIT_SECS = 0.3
"""About as long as a commit takes."""


class Fate:
    """Dies at the `nth` time that its step is reached. `group`: to be killed as a whole; 0: this process alone.
    `whom`: if the JVM is to die, a step counts from when the job works with it; one that dies alone is outlived."""

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

    def die(self) -> None:
        if self.group:
            os.killpg(self.group, signal.SIGKILL)
        if self._outlives:
            return
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # in which it does not come to anything else

    def before(self, owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
        self._around(owner, name, when, after=False)

    def after(self, owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
        self._around(owner, name, when, after=True)

    def _around(self, owner: Any, name: str, when: Callable[..., bool], *, after: bool) -> None:
        whole = getattr(owner, name)

        def around(*args: Any, **named: Any) -> Any:
            due = when(*args, **named) and self.due()
            if due and not after:
                self.die()
            answer = whole(*args, **named)
            if due:
                self.die()
            return answer

        setattr(owner, name, around)


def _is_copy(_: object, key: str, *__: object) -> bool:
    return key.endswith("_checkpoint.json")


def _is_receipt(_: object, key: str, *__: object) -> bool:
    return "/receipts/" in key


def _is_letter(_: object, key: str, *__: object) -> bool:
    return "/dead_letters/" in key


def _is_report(_: object, key: str, *__: object) -> bool:
    return key.endswith("_sweep.json")


def _both(fate: Fate, name: str, when: Callable[..., bool], *, after: bool = False) -> None:
    for store in (LocalStore, S3Store):
        (fate.after if after else fate.before)(store, name, when)


def before_the_read(fate: Fate) -> None:
    fate.before(SparkReader, "read")


def after_the_read(fate: Fate) -> None:
    fate.after(SparkReader, "read")


def in_the_write_of_a_data_file(fate: Fate) -> None:
    whole = SparkReader.read

    def read(*args: Any, **named: Any) -> Any:
        if fate.due():
            set_trap(fate.trap, fate.group, os.getpid())
        return whole(*args, **named)

    SparkReader.read = read  # type: ignore[method-assign]


def before_the_receipt(fate: Fate) -> None:
    for name in ("put", "create"):
        _both(fate, name, _is_receipt)


def after_the_dead_letters(fate: Fate) -> None:
    _both(fate, "put", _is_letter, after=True)


def before_the_commit(fate: Fate) -> None:
    fate.before(Transaction, "commit")
    fate.before(TableCommits, "commit_by_spark_writer")


def in_the_commit(fate: Fate) -> None:
    """Somewhere while Delta commits: the moment is left to luck."""

    def soon(*_: object, **__: object) -> bool:
        if fate.due():
            timer = threading.Timer(fate.rng.uniform(0, IN_THE_COMMIT_SECS), fate.die)
            timer.daemon = True
            timer.start()
        return False

    fate.before(Transaction, "commit", soon)
    fate.before(TableCommits, "commit_by_spark_writer", soon)


def after_the_commit_and_before_its_answer(fate: Fate) -> None:
    fate.after(Transaction, "commit")
    fate.after(TableCommits, "commit_by_spark_writer")


def before_the_copy(fate: Fate) -> None:
    _both(fate, "put", _is_copy)


def before_the_trim(fate: Fate) -> None:
    fate.before(Manifest, "trim")


def after_the_trim(fate: Fate) -> None:
    fate.after(Manifest, "trim")


def in_recovery(fate: Fate) -> None:
    """After the table's log was read, after the snapshot was asked, or with a state that nobody uses any more."""
    if fate.rng.random() < 0.5:
        fate.after(spark_job.loop.files.source, "recover")
        return
    fate.after(DeltaSourceTable, fate.rng.choice(["commits", "newest_version"]))


def in_the_sweep(fate: Fate) -> None:
    if fate.rng.random() < 0.3:
        _both(fate, "put", _is_report)
    else:
        (fate.after if fate.rng.random() < 0.5 else fate.before)(Manifest, "append")


def between_two_calls_of_storage(fate: Fate) -> None:
    """Any call of the driver, before its effect or after it."""
    after = fate.rng.random() < 0.5
    for name in STORE_CALLS:
        _both(fate, name, lambda *_, **__: True, after=after)


def when_the_answer_of_a_commit_is_lost(fate: Fate) -> None:
    """It does not die: it is told that nobody knows, though the commit has landed."""

    def around(owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def lose(*args: Any, **named: Any) -> Any:
            due, answer = fate.due(), whole(*args, **named)
            if due:
                raise CommitOutcomeUnknown("the answer was lost")
            return answer

        setattr(owner, name, lose)

    around(Transaction, "commit")
    around(TableCommits, "commit_by_spark_writer")


Step = Callable[[Fate], None]
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
        between_two_calls_of_storage,
        when_the_answer_of_a_commit_is_lost,
    )
}


def prepare(step: str, fate: Fate) -> None:
    """Nothing, for a life that lives on or that somebody else kills."""
    if step and step != RANDOM_MOMENT:
        STEPS[step](fate)
