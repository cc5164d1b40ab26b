"""Campaign `kill-calls`: collector, sweeper, dispatcher and job as processes that are killed between any two of their
calls, hundreds of times a minute, over the product's own code and local files."""

from dataclasses import dataclass

from tests.proof.breaks import MARKS_ALONE, NO_LOOK, NO_TXN, OLDER_STATE, TWO_RUNS
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.kill_calls_places import Places
from tests.proof.kill_calls_world import ACTORS, OVERWRITTEN_IN_PART, SOMEBODY, World
from tests.proof.kill_lives import Lives

TURNS = 60
"""Lives of a round before those that live on."""
ROUNDS_A_TABLE = 10
"""Each ends with a comparison of the whole table; then another one begins, so that a life stays as short as it was."""
DOUBLED = r"^doubled: \["
MISSING = r"^missing \[\("
VARIANTS = {
    NO_TXN: Fault("a job dies between the two commits, and the next one reads the rows again", DOUBLED),
    NO_LOOK: Fault("a lost answer doubles the batch", DOUBLED),
    OLDER_STATE: Fault("a job dies between commit and copy, and the next one reads the batch again", DOUBLED),
    MARKS_ALONE: Fault("files that no event announced are settled and never read", MISSING),
    TWO_RUNS: Fault(
        "a dispatcher dies between the start and its record, and the next one starts a second run",
        r"^[2-9] runs are active at once",
    ),
}


@dataclass(frozen=True)
class KillCalls:
    name = "kill-calls"
    about = "collector, sweeper, dispatcher and job, killed between any two of their calls"
    variants = VARIANTS
    wanted = (
        *(f"kills of the {who}" for who in ACTORS),
        f"kills of {SOMEBODY}",
        "times that the manifest was deleted",
        OVERWRITTEN_IN_PART,
        "files overwritten while in progress",
    )

    def run(self, run: Run) -> None:
        places, world = Places(), None
        with Lives(run.folder / "lives", ["tests.proof.kill_calls_life"]) as lives:
            for number, rng in run.rounds():
                run.say(f"kills {', '.join(ACTORS)}: round {number}")
                if world is None or number % ROUNDS_A_TABLE == 0:
                    world = World(run, lives, run.folder / f"table-{number}", rng, places=places)
                    run.counts["tables"] += 1
                world.rng = rng
                for _ in range(TURNS):
                    world.turn()
                world.finish()
                run.counts["most kills over one table"] = max(run.counts["most kills over one table"], world.kills)
                run.counts["places killed at"] = places.killed_at
        if run.budget.rounds is None and not run.variant:
            check_shown(run, places)


def check_shown(run: Run, places: Places) -> None:
    """Raises Failed: a call that many made, and at which nobody died, has shown nothing."""
    if idle := places.spared_of_many:
        raise Failed(f"nobody was killed {'; '.join(idle)}", [f"seed {run.seed}"])


CAMPAIGN = KillCalls()
