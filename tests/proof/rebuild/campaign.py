"""Campaign `rebuild`: tables are rebuilt in another place and swapped in, and lost states are rebuilt, while files land
and jobs run; operators and jobs are killed between any two calls, on real Delta tables."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from tests.proof.campaign import Fault, Run
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.kill.fork_server import ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.rebuild.processes import NOT_COMPARED, NOT_MARKED, ROWS_UNREAD
from tests.proof.rebuild.world import OF_LOCAL, OF_SPARK, RACES, REFUSED, RESTORED, SWAPS, TAKEN_BACK, WHO, World

TURNS, ROUNDS_A_LAKE = 12, 3
MODULES = ("tests.proof.rebuild.processes",)
"""What the fork server imports."""
VARIANTS: Mapping[str, Fault] = {
    NOT_MARKED: Fault("a job goes on committing where nobody looks any more", r"^a job .*commits to .*was taken"),
    NOT_COMPARED: Fault("rows of files that the source does not have any more are lost", r"^missing \[\("),
    ROWS_UNREAD: Fault(
        "after a table was copied its files are ingested again, or no other table can be compared with it",
        r"^missing \[|^nobody was killed, and the tables were not swapped",
    ),
}


@dataclass(frozen=True)
class Rebuild:
    name = "rebuild"
    about = "tables rebuilt elsewhere and swapped in, and states rebuilt, with jobs beside it and everybody killed"
    variants = VARIANTS
    wanted = (
        *(f"kills of the {who}" for who in WHO),
        RACES,
        SWAPS,
        REFUSED,
        RESTORED,
        TAKEN_BACK,
        RANDOM_NAMES,
        IN_PARTITIONS,
        OF_SPARK,
        OF_LOCAL,
    )

    def run(self, run: Run) -> None:
        """Without a limit of rounds a part of the processes has Spark."""
        with ExitStack() as stack:
            fork_server = stack.enter_context(ForkServer(run.folder / "processes", MODULES))
            has_jvm = run.budget.rounds is None and not run.variant
            jvm = stack.enter_context(Jvm(run.folder / "jvm")) if has_jvm else None
            world: World | None = None
            for number, rng in run.rounds():
                run.say(f"rebuilds, swaps and jobs: round {number}")
                if world is None or number % ROUNDS_A_LAKE == 0:
                    world = World(run, fork_server, run.folder / f"lake-{number}", rng, jvm)
                world.rng, world.seed = rng, f"seed {run.seed}, round {number}"
                for _ in range(TURNS):
                    world.turn()
                world.finish()


CAMPAIGN = Rebuild()
