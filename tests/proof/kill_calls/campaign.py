"""Campaign `kill-calls`: collector, sweeper, dispatcher and job as processes that are killed between any two of their
calls, hundreds of times a minute, over the product's own code, on local files and on S3."""

import random
from contextlib import ExitStack
from dataclasses import dataclass

from blizzard.environment import temporary_variables
from infra.local.processes.server_process import LocalAws, local_aws
from tests.proof.breaks import MARKS_ALONE, NO_LOOK, NO_TXN, OLDER_STATE, TWO_RUNS
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.kill.fork_server import ForkServer
from tests.proof.kill_calls.operator import NOT_LOOKED_UP, SETTLED_BEFORE
from tests.proof.kill_calls.places import Places
from tests.proof.kill_calls.processes import LEDGER_BREAKER
from tests.proof.kill_calls.table import OLD_STAY, OUT_FIRST
from tests.proof.kill_calls.world import (
    ACTORS,
    DAMAGED,
    LETTERS_SETTLED,
    OVERWRITTEN_IN_PART,
    PUT_BACK,
    REBUILDS,
    SOMEBODY,
    World,
)
from tests.proof.ledger.breaks import CLAIMS_MORE, FALSE_NEGATIVES, HALF_MERGED, OTHERS_RUN, SWAPPED_RECEIPT
from tests.proof.ledger.damage import DAMAGES, name_of

TURNS = 60
"""Processes of a round that may be killed, before those that are not."""
S3_EVERY, TURNS_ON_S3 = 6, 20
"""Of so many rounds the last is on S3, where a process takes several times as long."""
ROUNDS_A_TABLE = 10
"""Each ends with a comparison of the whole table; then another table begins, so that a process stays as short as it
was."""
DOUBLED = r"^doubled: \["
DOUBLED_NOW = rf"{DOUBLED}|^collected, and after a job in the table as it is no more"
"""The same records, if a job's end shows them before the whole table is compared."""
MISSING = r"^missing \[\("
MISSING_NOW = rf"{MISSING}|^collected, and after a job neither in the table nor dead-lettered"
VARIANTS = {
    NO_TXN: Fault("a job dies between the two commits, and the next one reads the rows again", DOUBLED_NOW),
    NO_LOOK: Fault("a lost answer doubles the batch", DOUBLED_NOW),
    OLDER_STATE: Fault("a job dies between commit and copy, and the next one reads the batch again", DOUBLED_NOW),
    MARKS_ALONE: Fault("files that no event announced are settled and never read", MISSING),
    TWO_RUNS: Fault(
        "a dispatcher dies between the start and its record, and the next one starts a second run",
        r"^[2-9] runs are active at once",
    ),
    CLAIMS_MORE: Fault("a file of that commit is announced again, and ingested again", DOUBLED_NOW),
    FALSE_NEGATIVES: Fault("a file that the filter does not know is announced again, and ingested again", DOUBLED_NOW),
    OTHERS_RUN: Fault("files that the other table has not are ingested again", DOUBLED_NOW),
    HALF_MERGED: Fault("a file that the merge had not reached is ingested again", DOUBLED_NOW),
    NOT_LOOKED_UP: Fault("a replay that died after its commit is repeated, and its records are there twice", DOUBLED),
    SETTLED_BEFORE: Fault(
        "a replay dies before its commit, and nothing shows any more that its records are missing",
        r"silent \[\(|^collected, and after a job neither in the table nor dead-lettered",
    ),
    OLD_STAY: Fault("a file that an operator replaces is there twice", DOUBLED),
    OUT_FIRST: Fault("an operator dies between the two commits, and the file is gone from the table", MISSING_NOW),
    SWAPPED_RECEIPT: Fault(
        "files of the receipt whose place another one took are ingested again",
        DOUBLED_NOW,
    ),
}


@dataclass(frozen=True)
class KillCalls:
    name = "kill-calls"
    about = "collector, sweeper, dispatcher and job, killed between any two of their calls"
    variants = VARIANTS
    wanted = (
        *(f"kills of the {who} on S3" for who in ACTORS),
        *(f"kills of the {who}" for who in ACTORS),
        f"kills of {SOMEBODY}",
        "times that the manifest was deleted",
        f"kills of {LEDGER_BREAKER}",
        *(f"{DAMAGED}: {name_of(does)}" for does in DAMAGES),
        OVERWRITTEN_IN_PART,
        "files overwritten while in progress",
        PUT_BACK,
        LETTERS_SETTLED,
        REBUILDS,
    )

    def run(self, run: Run) -> None:
        with ExitStack() as stack:
            fork_server = stack.enter_context(
                ForkServer(run.folder / "processes", ["tests.proof.kill_calls.processes"])
            )
            here = Tables(run, fork_server)
            on_s3: Tables | None = None
            for number, rng in run.rounds():
                if run.variant or number % S3_EVERY < S3_EVERY - 1:
                    here.round(number, rng, TURNS)
                    continue
                on_s3 = on_s3 or Tables(run, fork_server, s3_of(stack))
                on_s3.round(number, rng, TURNS_ON_S3)
            if run.budget.rounds is None and not run.variant:
                check_shown(run, here.places)


def s3_of(stack: ExitStack) -> LocalAws:
    """Until the end of the stack. Its environment is that of this process meanwhile."""
    aws = stack.enter_context(local_aws())
    stack.enter_context(temporary_variables(aws.environment()))
    return aws


class Tables:
    """One table after the other, on this machine's disk or on S3."""

    def __init__(self, run: Run, fork_server: ForkServer, aws: LocalAws | None = None) -> None:
        self.places = Places()
        self._run = run
        self._fork_server = fork_server
        self._aws = aws
        self._rounds = 0
        self._world: World | None = None

    def round(self, number: int, rng: random.Random, turns: int) -> None:
        counts = self._run.counts
        self._run.say(f"kills {', '.join(ACTORS)}: round {number}{' on S3' if self._aws else ''}")
        if self._world is None or self._rounds % ROUNDS_A_TABLE == 0:
            folder = self._run.folder / f"table-{number}"
            self._world = World(self._run, self._fork_server, folder, rng, aws=self._aws, places=self.places)
            counts["tables"] += 1
        self._rounds += 1
        self._world.rng = rng
        for _ in range(turns):
            self._world.turn()
        self._world.finish()
        counts["rounds on S3"] += self._aws is not None
        counts["most kills over one table"] = max(counts["most kills over one table"], self._world.kills)
        counts[f"places killed at{' on S3' if self._aws else ''}"] = self.places.killed_at


def check_shown(run: Run, places: Places) -> None:
    """Raises Failed for a call that many processes made, and at which none was killed: it has shown nothing."""
    if idle := places.spared_of_many:
        raise Failed(f"nobody was killed {'; '.join(idle)}", [f"seed {run.seed}"])


CAMPAIGN = KillCalls()
