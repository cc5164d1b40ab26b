"""Campaign `kill`: the real job over real Delta, killed at every named step and at random moments, over one table on
local files, which sees two of three, and one on S3; and over further ones, a column of which is widened."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from blizzard.environment import temporary_variables
from tests.proof import campaign, large_file, new_fields, widening
from tests.proof.campaign import Failed, Run
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.job_engines import JOBS_OF, LOCAL, RESUMED_BY_THE_OTHER, SPARK, find_with_each, kills_at, kills_of
from tests.proof.kill import kill_counts
from tests.proof.kill.kill_counts import BEFORE_ITS_ROWS, WIDENED_TABLE, PlannedKill, jvm_deaths
from tests.proof.kill.names import (
    BETWEEN_CALLS,
    DAMAGED,
    IN_A_MERGE,
    IN_THE_WRITE,
    JVM_STEPS,
    LOST_ANSWER,
    MOST_CALLS,
    OPERATORS,
    RANDOM_MOMENT,
    SHORTEST,
    STEPS,
    VARIANTS,
    WIDENED_VARIANTS,
    Whom,
)
from tests.proof.kill.stage import Stage, stage
from tests.proof.kill.table import KilledTable
from tests.proof.reduce import reduced

SHORT = (
    ("in the write of a data file", "before the commit", "before the copy", "in recovery", LOST_ANSWER, RANDOM_MOMENT),
    ("after the read", "after the commit and before its answer", "before the trim", IN_A_MERGE),
)
"""The steps of a run with a limit of rounds, on local files and on S3."""
WITH_JVM_SHORT = "before the commit"
TRIES = 4
"""Attempts to kill at one step: the step may not be reached, for example no dead letter without a broken record."""
SMALLER_SECS = 300.0
"""Within which a try begins to fail with less."""
PLACES = ("local files", "S3")
"""As they name themselves."""
JVM_EVERY = 4
"""Of so many steps of a round, one kills the JVM, alone or with its job; WITH_JVM says how often which."""
WITH_JVM = {Whom.BOTH: 45, Whom.JVM: 40, Whom.OWN: 15}
S3_EVERY = 3
"""Rounds, and steps of a round: so one table sees hundreds of kills in an hour."""
WIDENED_EVERY, WIDENED_SHARE = 2, 3
"""Every second round has another table, a column of which is widened: one step of three kills over it, too. The others
stay as both engines can write them."""
ROUNDS_FOR_ALL, ROUNDS_FOR_EACH_PLACE, ROUNDS_FOR_JVM, ROUNDS_FOR_WIDENED = 3, 6, 8, 12
"""Rounds after which the campaign fails unless each step has killed a job, on each place, a JVM, and over a table that
is widened."""
Wanted = Sequence[tuple[str, Sequence[str]]]
"""Steps, each with the places on one of which it must have killed a process."""
ALL_STEPS = (*STEPS, LOST_ANSWER, RANDOM_MOMENT)


# -- rounds


OneRound = Callable[[Sequence[KilledTable], int, random.Random, Run], None]
"""On these tables, with its number and its random generator."""


def _long_round(tables: Sequence[KilledTable], number: int, rng: random.Random, run: Run) -> None:
    """Each step once: one step of three on the second table, the others on the first; some again on the third one, if
    the round has it."""
    for turn, step in _turns(number, rng):
        _kill_in_turn(tables[1 if turn % S3_EVERY == 0 else 0], turn, step, rng, run)
    for table in tables[2:]:
        for turn, step in _turns(number // WIDENED_EVERY, rng):
            if turn % WIDENED_SHARE == 0:
                _kill_in_turn(table, turn, step, rng, run)


def _turns(first: int, rng: random.Random) -> list[tuple[int, str]]:
    steps = [*enumerate([*ALL_STEPS, RANDOM_MOMENT], first)]
    rng.shuffle(steps)
    return steps


def _kill_in_turn(table: KilledTable, turn: int, step: str, rng: random.Random, run: Run) -> None:
    whom = rng.choices([*WITH_JVM], [*WITH_JVM.values()])[0] if turn % JVM_EVERY == 0 else Whom.JOB
    whom = whom if step in (*JVM_STEPS, RANDOM_MOMENT) else Whom.JOB
    nth = rng.randint(1, MOST_CALLS) if step == BETWEEN_CALLS else rng.choice([1, 1, 1, 2, 3])
    nth = 1 if step == LOST_ANSWER else nth
    _kill_at_step(table, step, nth, rng, run, whom)


def _kill_at_step(table: KilledTable, step: str, nth: int, rng: random.Random, run: Run, whom: Whom) -> None:
    """Retries, at an earlier call each time, while no process is killed."""
    for _ in range(TRIES):
        if table.kill_once(step, nth, rng, whom):
            return
        run.counts["lives that ended before their kill"] += 1
        nth = max(1, nth // 4)


def _short_round(tables: Sequence[KilledTable], _: int, rng: random.Random, run: Run) -> None:
    """A few steps on each table; the last one on the first table also kills the JVM."""
    for table, some in zip(tables, SHORT, strict=True):
        steps = sorted(rng.sample(some, len(some)), key=lambda step: step == WITH_JVM_SHORT)
        for step in steps:
            _kill_at_step(table, step, 1, rng, run, Whom.BOTH if step == WITH_JVM_SHORT else Whom.JOB)


def _variant_round(tables: Sequence[KilledTable], _: int, rng: random.Random, run: Run) -> None:
    for step, nth in SHORTEST[run.variant]:
        tables[0].kill_once(step, nth, rng)


def find(run: Run, stage: Stage) -> None:
    """A broken variant, with each engine. Raises Failed if it is found with each."""
    widens = run.variant in WIDENED_VARIANTS

    def go(engine: str) -> None:
        place = stage.local(run.folder / f"local-{engine}")
        table = KilledTable(run, stage, place, run.folder / f"table-{engine}", engines=(engine,), widens=widens)
        _rounds(run, stage, [table], _variant_round)

    find_with_each(run, VARIANTS[run.variant], go)


def kill(run: Run, stage: Stage) -> None:
    """The stage may have been used before."""
    places = [stage.local(run.folder / "local"), stage.s3()]
    tables = [KilledTable(run, stage, place, run.folder / f"table-{number}") for number, place in enumerate(places)]
    if run.budget.rounds is None:
        _rounds(run, stage, tables, _long_round, lambda number: _widened_table(run, stage, number))
    else:
        _rounds(run, stage, tables, _short_round)
    check_shown(run, wanted(run, [place.name for place in places]))
    campaign.check_shown(run, [large_file.commits_of_a_part(place.name) for place in places])
    check_jvms(run)


def _widened_table(run: Run, stage: Stage, number: int) -> Iterator[KilledTable]:
    """Of the round with this number, on local files and on S3 by turns, if it has one."""
    turn, has_none = divmod(number + 1, WIDENED_EVERY)
    if not has_none:
        place = stage.local(run.folder / f"widened-{number}") if turn % 2 else stage.s3()
        yield KilledTable(run, stage, place, run.folder / f"widened-table-{number}", widens=True)


def _rounds(
    run: Run,
    stage: Stage,
    tables: Sequence[KilledTable],
    one_round: OneRound,
    more: Callable[[int], Iterable[KilledTable]] = lambda number: (),
) -> None:
    """`more`: tables of one round, by its number."""
    before = stage.jvms
    for number, rng in run.rounds():
        of_round = [*tables, *more(number)]
        try:
            one_round(of_round, number, rng, run)
            for table in of_round:
                table.run_to_end()
                table.compare()
        except Failed as failed:
            raise _with_the_smallest_way(failed, of_round, run, stage) from failed
        run.counts["JVMs"] = stage.jvms - before


def _with_the_smallest_way(failed: Failed, tables: Sequence[KilledTable], run: Run, stage: Stage) -> Failed:
    """Not for a broken variant, whose steps are the shortest already."""
    table = next((table for table in tables if failed.why.startswith(f"{table.name}: ")), None)
    if table is None or run.variant:
        return failed
    run.say("looks for the smallest way to what it has found")
    until_secs = time.monotonic() + SMALLER_SECS
    again = Again(run, stage, on_s3=table.place.name == PLACES[1], widens=table.widens)
    return reduced(failed, table.planned_kills, again, lambda: time.monotonic() < until_secs)


class Again:
    """Repeats some kills over a new table. Raises Failed. Its counts do not count for the run."""

    def __init__(self, run: Run, stage: Stage, *, on_s3: bool = False, widens: bool = False) -> None:
        self._run = Run(run.seed, run.budget, run.folder, run.variant, run.say)
        self._stage = stage
        self._on_s3 = on_s3
        self._widens = widens
        self._tables = count(1)

    def __call__(self, planned_kills: Sequence[PlannedKill]) -> None:
        folder = self._run.folder / f"again-{next(self._tables)}"
        folder.mkdir()
        place = self._stage.s3() if self._on_s3 else self._stage.local(folder / "local")
        table = KilledTable(self._run, self._stage, place, folder / "table", widens=self._widens)
        for planned in planned_kills:
            table.repeat_kill(planned)
        table.run_to_end()
        table.compare()


def wanted(run: Run, places: Sequence[str]) -> Wanted:
    """The steps that a run of this length must have shown. One round is not enough for a random moment: the job may end
    before it."""
    if run.budget.rounds is not None:
        turns = [(step, [name]) for name, some in zip(places, SHORT, strict=True) for step in some]
        return [turn for turn in turns if turn[0] != RANDOM_MOMENT]
    widened = [WIDENED_TABLE] if run.counts["rounds"] >= ROUNDS_FOR_WIDENED else []
    if run.counts["rounds"] >= ROUNDS_FOR_EACH_PLACE:
        return [(step, [name]) for name in (*places, *widened) for step in ALL_STEPS]
    return [(step, places) for step in ALL_STEPS] if run.counts["rounds"] >= ROUNDS_FOR_ALL else []


def check_shown(run: Run, turns: Wanted) -> None:
    """Raises Failed for a step that never killed a process: it has shown nothing."""
    idle = [
        f"{step} on {' or '.join(places)}"
        for step, places in turns
        if not any(run.counts[kill_counts.kills(step, place)] for place in places)
    ]
    if idle:
        raise Failed(
            f"nothing is shown of these steps, as nobody died of them: {', '.join(idle)}", [f"seed {run.seed}"]
        )


def check_jvms(run: Run) -> None:
    """Raises Failed unless, in a run of so many rounds, each step has killed a JVM in use."""
    if run.budget.rounds is None and run.counts["rounds"] >= ROUNDS_FOR_JVM:
        campaign.check_shown(run, [*map(jvm_deaths, JVM_STEPS), kill_counts.OUTLIVED])


@dataclass(frozen=True)
class Kill:
    name = "kill"
    about = "the real job over real Delta, killed at every step and at random moments, on local files and on S3"
    variants = VARIANTS
    wanted = (
        *(kill_counts.kills(step, place) for place in (*PLACES, WIDENED_TABLE) for step in ALL_STEPS),
        *map(jvm_deaths, (*JVM_STEPS, RANDOM_MOMENT)),
        kill_counts.OUTLIVED,
        DAMAGED,
        OPERATORS,
        new_fields.ADDED,
        *map(widening.widened_on, PLACES),
        widening.RESCUED,
        BEFORE_ITS_ROWS,
        RANDOM_NAMES,
        IN_PARTITIONS,
        *JOBS_OF.values(),
        *map(kills_of, (SPARK, LOCAL)),
        *(kills_at(IN_THE_WRITE, by) for by in (SPARK, LOCAL)),
        *RESUMED_BY_THE_OTHER,
        *map(large_file.commits_of_a_part, (*PLACES, WIDENED_TABLE)),
    )

    def run(self, run: Run) -> None:
        """One table on local files and one on S3. Without a limit of rounds each step has its turn in each, and over
        tables that are widened; with one a few have, and the JVM is killed once."""
        with stage(run.folder / "stage") as common, temporary_variables(common.environment):
            (find if run.variant else kill)(run, common)


CAMPAIGN = Kill()
