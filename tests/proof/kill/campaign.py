"""Campaign `kill`: the real job over real Delta, killed at every named step and at random moments, over one table on
local files, which sees two of three, and one on S3."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from blizzard.environment import temporary_variables
from blizzard.state.identity import SourceIdentity
from infra.local.processes.checkout import CHECKOUT
from tests.proof import campaign, large_file, places
from tests.proof.campaign import Failed, Run
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.kill import kill_counts
from tests.proof.kill.commit_claims import CommitClaim, claimed_commits, missing_from_log, told
from tests.proof.kill.fork_server import KILLED, ForkedProcess
from tests.proof.kill.jvm import DAEMON, TRAP, is_gone
from tests.proof.kill.kill_counts import MOST_KILLS, PlannedKill, jvm_deaths
from tests.proof.kill.landing import Landing
from tests.proof.kill.letters import etags_of, wrong_letters
from tests.proof.kill.names import (
    BETWEEN_CALLS,
    DAMAGED,
    DAMAGED_SHARE,
    GAVE_UP,
    IN_A_MERGE,
    IN_THE_WRITE,
    JOBS_OF,
    JVM_STEPS,
    LOST_ANSWER,
    MOST_CALLS,
    RANDOM_MOMENT,
    SHORTEST,
    SPARK_STARTED,
    STEPS,
    VARIANTS,
    Whom,
)
from tests.proof.kill.stage import Stage, stage
from tests.proof.ledger.damage import DAMAGES_BESIDE_RECEIPTS, damage
from tests.proof.places import Place
from tests.proof.reduce import reduced
from tests.spark.lake import SHORT_JOB, conf_options

FOLDER, SOURCE = "landing", "events:landing"
IDENTITY = SourceIdentity("events", FOLDER, places.prefix_of(SOURCE))
SETTINGS = {"on_overwrite": "replace", "checkpoint": {"interval_files": 5, "interval_bytes": "20KB"}}
SHORT = (
    ("in the write of a data file", "before the commit", "before the copy", "in recovery", LOST_ANSWER, RANDOM_MOMENT),
    ("after the read", "after the commit and before its answer", "before the trim", IN_A_MERGE),
)
"""The steps of a run with a limit of rounds, on local files and on S3."""
WITH_JVM_SHORT = "before the commit"
TRIES = 4
"""Attempts to kill at one step: the step may not be reached, for example no dead letter without a broken record."""
RUN_SECS, OWN_JVM_RUN_SECS = 1.5, 12.0
"""Random moments lie within this time, until the duration of a run is measured; the second is for a job with its own
JVM."""
OUTLIVES_SECS = 2.0
"""For a JVM that was killed to be gone once its driver has ended."""
SMALLER_SECS = 300.0
"""Within which a try begins to fail with less."""
RUNS_AT_THE_END = 3
PLACES = ("local files", "S3")
"""As they name themselves."""
JVM_EVERY = 4
"""Of so many steps of a round, one kills the JVM, alone or with its job; WITH_JVM says how often which."""
WITH_JVM = {Whom.BOTH: 45, Whom.JVM: 40, Whom.OWN: 15}
S3_EVERY = 3
"""Rounds, and steps of a round: so one table sees hundreds of kills in an hour."""
ROUNDS_FOR_ALL, ROUNDS_FOR_EACH_PLACE, ROUNDS_FOR_JVM = 3, 6, 8
"""Rounds after which the campaign fails unless each step has killed a job, on each place, and a JVM."""
Wanted = Sequence[tuple[str, Sequence[str]]]
"""Steps, each with the places on one of which it must have killed a process."""


class _Table:
    """One table, and the jobs that run on it one after the other."""

    def __init__(self, run: Run, stage: Stage, place: Place, folder: Path) -> None:
        self.place = place
        self._run = run
        self._stage = stage
        self._landing = Landing(place, FOLDER, SOURCE)
        self._run_secs = RUN_SECS
        self.kills = 0
        self._claims: set[CommitClaim] = set()
        """Commits that jobs have logged as made."""
        self._done: list[str] = []
        """Steps since the last successful comparison."""
        self.planned_kills: list[PlannedKill] = []
        """Since then."""
        folder.mkdir()
        self._words = places.write_config(place, folder / "pipelines.yaml", {FOLDER: SETTINGS})

    # -- kills

    def kill_once(self, step: str, nth: int, rng: random.Random, whom: Whom = Whom.JOB) -> bool:
        """Returns as `repeat_kill` does."""
        return self.repeat_kill(PlannedKill(step, nth, str(rng.random()), whom))

    def repeat_kill(self, planned: PlannedKill) -> bool:
        """Lands new files, then runs the job. Without a step, the job is not killed.

        Returns whether the planned process was killed, or the response to a commit was lost. The kill of a JVM that no
        job uses does not count.
        """
        self.planned_kills.append(planned)
        step, nth, whom, rng = planned.step, planned.nth, planned.whom, random.Random(planned.seed)
        self._done += self._landing.land(rng, self._run)
        if not self._run.variant and rng.random() < DAMAGED_SHARE:
            what = damage(self.place.table(), IDENTITY, rng, rng.choice(DAMAGES_BESIDE_RECEIPTS))
            self._run.counts[DAMAGED] += 1
            self._done.append(f"the ledger was damaged: {what}")
        self._run.say(f"kills {whom} {step} on {self.place.name}" if step else f"a life on {self.place.name}")
        process = self._start(step, nth, rng, whom)
        jvm = process.pid if whom is Whom.OWN else self._stage.jvm().group
        if step == RANDOM_MOMENT:
            time.sleep(rng.uniform(0, OWN_JVM_RUN_SECS if whom is Whom.OWN else self._run_secs))
            self._kill(process, whom)
        ended = process.wait()
        self._stage.trap.unlink(missing_ok=True)  # it stays if the batch had no rows
        events = process.events()
        self._claims.update(claimed_commits(events))
        lost_an_answer = step == LOST_ANSWER and any(event["event"] == "commit_unclear" for event in events)
        if lost_an_answer:
            self._run.counts[kill_counts.kills(step, self.place.name)] += 1
        died = bool(step) and self._has_died(whom, ended, jvm)
        in_use = any(event["event"] == SPARK_STARTED for event in events)
        if died:
            self._count_kill(step, whom, in_use=in_use)
        self._done.append(f"{whom} {step or 'that lives'} (time {nth}): ended with {ended}")
        gave_up = died and whom is Whom.JVM and any(event["event"] in GAVE_UP for event in events)
        if ended not in (KILLED, 0) and not gave_up:
            self._fail(f"a job ended with {ended}: {_last_words(process)}")
        return (died and (whom is Whom.JOB or in_use or step == RANDOM_MOMENT)) or lost_an_answer

    def _has_died(self, whom: Whom, ended: int, jvm: int) -> bool:
        """Raises RuntimeError if only one of job and JVM is gone. The next job gets another JVM."""
        if whom is Whom.JVM:
            died = is_gone(jvm, within_secs=OUTLIVES_SECS)
        else:
            died = ended == KILLED
            if died and whom is not Whom.JOB and not is_gone(jvm):
                raise RuntimeError(f"process group {jvm} was to die with its job, and lives on")
        if died and whom in (Whom.BOTH, Whom.JVM):
            self._stage.kill_jvm()
        return died

    def _count_kill(self, step: str, whom: Whom, *, in_use: bool) -> None:
        self.kills += 1
        self._run.counts[MOST_KILLS] = max(self._run.counts[MOST_KILLS], self.kills)
        kill_counts.count(self._run.counts, step, self.place.name, whom, in_use=in_use)

    def _start(self, step: str, nth: int, rng: random.Random, whom: Whom) -> ForkedProcess:
        engine = self._engine(step, whom, rng)
        self._run.counts[JOBS_OF[engine]] += 1
        words, environment, jvm = [*self._words, "--engine", engine], dict(self.place.environment), 0
        if whom is Whom.OWN:
            words = [*words, "--jars", str(CHECKOUT / "jars"), *_own_conf()]
            environment |= {"PYTHONPATH": str(CHECKOUT), TRAP: str(self._stage.trap)}
        else:
            running = self._stage.jvm()
            environment |= running.environment
            jvm = running.group
        return self._stage.fork_server.start(
            "tests.proof.kill.job:run_job",
            environment=environment,
            group=jvm if whom is Whom.BOTH else 0,
            words=words,
            step=step,
            nth=nth,
            whom=whom,
            jvm=jvm,
            seed=str(rng.random()),
            variant=self._run.variant,
        )

    def _engine(self, step: str, whom: Whom, rng: random.Random) -> str:
        """Spark, if its JVM or a process of its is to be killed, and for a broken variant."""
        if self._run.variant or whom is not Whom.JOB or step == IN_THE_WRITE:
            return "spark"
        return rng.choice(["spark", "auto"])

    def _kill(self, process: ForkedProcess, whom: Whom) -> None:
        if whom in (Whom.BOTH, Whom.JVM):
            self._stage.kill_jvm()
        elif whom is Whom.OWN:
            process.kill_group()
        if whom is not Whom.JVM:
            process.kill()

    def run_to_end(self) -> None:
        """Runs the job until a run has nothing left to do."""
        longest_secs = 0.0
        for _ in range(RUNS_AT_THE_END):
            began = time.monotonic()
            process = self._start("", 1, random.Random(0), Whom.JOB)
            ended = process.wait()
            longest_secs = max(longest_secs, time.monotonic() - began)
            self._done.append(f"a job that lives: ended with {ended}")
            if ended != 0:
                self._fail(f"a job that was not killed ended with {ended}: {_last_words(process)}")
            events = process.events()
            self._claims.update(claimed_commits(events))
            drained = [event for event in events if event["event"] == "drained"]
            if drained and not drained[-1]["commits"]:
                self._run_secs = longest_secs
                return
            self._done += told(events)
        self._fail(f"the job after {RUNS_AT_THE_END - 1} that nobody killed still finds something to commit")

    # -- the comparison

    def compare(self) -> None:
        source, letters = places.source_of(self.place, FOLDER), places.letters(self.place, SOURCE)
        verdict = places.verdict(self.place, source, letters)
        self._run.counts["rows compared"] += verdict.rows_out
        if not verdict.good:
            self._fail("; ".join(verdict.lines()))
        etags = etags_of(self.place, FOLDER)
        if about_letters := [*wrong_letters(letters, source, etags, self._landing.overwritten)]:
            self._fail("; ".join(about_letters))
        log = [*places.log_of(self.place.table())]
        if wrong := places.broken_sequence(log, SOURCE) or missing_from_log(self._claims, log):
            self._fail(wrong)
        segments = [*self.place.table().list(f"{places.prefix_of(SOURCE)}/pending/")]
        if len(segments) > 12:
            self._fail(f"{len(segments)} segments are left in the manifest after a job that had nothing to do")
        self._run.counts[f"comparisons on {self.place.name}"] += 1
        self._run.counts[large_file.commits_of_a_part(self.place.name)] = large_file.parts_in(log, self.place.table())
        self._done.clear()
        self.planned_kills.clear()

    def _fail(self, why: str) -> None:
        raise Failed(f"{self.place.name}: {why}", [f"seed {self._run.seed}", *self._done])


def _own_conf() -> list[str]:
    options = {
        **SHORT_JOB,
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **DAEMON,
    }
    return conf_options(options)


def _last_words(process: ForkedProcess) -> str:
    return process.log.read_text()[-1500:] if process.log.exists() else ""


# -- rounds


def _long_round(tables: Sequence[_Table], number: int, rng: random.Random, run: Run) -> None:
    """Each step once: one step of three on the last table, the others on the first."""
    steps = [*enumerate([*STEPS, LOST_ANSWER, RANDOM_MOMENT, RANDOM_MOMENT], number)]
    rng.shuffle(steps)
    for turn, step in steps:
        whom = rng.choices([*WITH_JVM], [*WITH_JVM.values()])[0] if turn % JVM_EVERY == 0 else Whom.JOB
        whom = whom if step in (*JVM_STEPS, RANDOM_MOMENT) else Whom.JOB
        nth = rng.randint(1, MOST_CALLS) if step == BETWEEN_CALLS else rng.choice([1, 1, 1, 2, 3])
        nth = 1 if step == LOST_ANSWER else nth
        _kill_at_step(tables[-1 if turn % S3_EVERY == 0 else 0], step, nth, rng, run, whom)


def _kill_at_step(table: _Table, step: str, nth: int, rng: random.Random, run: Run, whom: Whom) -> None:
    """Retries, at an earlier call each time, while no process is killed."""
    for _ in range(TRIES):
        if table.kill_once(step, nth, rng, whom):
            return
        run.counts["lives that ended before their kill"] += 1
        nth = max(1, nth // 4)


def _short_round(tables: Sequence[_Table], _: int, rng: random.Random, run: Run) -> None:
    """A few steps on each table; the last one on the first table also kills the JVM."""
    for table, some in zip(tables, SHORT, strict=True):
        steps = sorted(rng.sample(some, len(some)), key=lambda step: step == WITH_JVM_SHORT)
        for step in steps:
            _kill_at_step(table, step, 1, rng, run, Whom.BOTH if step == WITH_JVM_SHORT else Whom.JOB)


def _variant_round(tables: Sequence[_Table], _: int, rng: random.Random, run: Run) -> None:
    for step, nth in SHORTEST[run.variant]:
        tables[0].kill_once(step, nth, rng)


def kill(run: Run, stage: Stage) -> None:
    """The stage may have been used before."""
    places = [stage.local(run.folder / "local"), *([] if run.variant else [stage.s3()])]
    tables = [_Table(run, stage, place, run.folder / f"table-{number}") for number, place in enumerate(places)]
    mixed = run.budget.rounds is None
    one_round = _variant_round if run.variant else _long_round if mixed else _short_round
    before = stage.jvms
    for number, rng in run.rounds():
        try:
            one_round(tables, number, rng, run)
            for table in tables:
                table.run_to_end()
                table.compare()
        except Failed as failed:
            raise _with_the_smallest_way(failed, tables, run, stage) from failed
        run.counts["JVMs"] = stage.jvms - before
    if not run.variant:
        check_shown(run, wanted(run, [place.name for place in places]))
        campaign.check_shown(run, [large_file.commits_of_a_part(place.name) for place in places])
        check_jvms(run)


def _with_the_smallest_way(failed: Failed, tables: Sequence[_Table], run: Run, stage: Stage) -> Failed:
    """Not for a broken variant, whose steps are the shortest already."""
    table = next((table for table in tables if failed.why.startswith(f"{table.place.name}: ")), None)
    if table is None or run.variant:
        return failed
    run.say("looks for the smallest way to what it has found")
    until_secs = time.monotonic() + SMALLER_SECS
    again = Again(run, stage, on_s3=table.place.name == PLACES[1])
    return reduced(failed, table.planned_kills, again, lambda: time.monotonic() < until_secs)


class Again:
    """Repeats some kills over a new table. Raises Failed. Its counts do not count for the run."""

    def __init__(self, run: Run, stage: Stage, *, on_s3: bool = False) -> None:
        self._run = Run(run.seed, run.budget, run.folder, run.variant, run.say)
        self._stage = stage
        self._on_s3 = on_s3
        self._tables = count(1)

    def __call__(self, planned_kills: Sequence[PlannedKill]) -> None:
        folder = self._run.folder / f"again-{next(self._tables)}"
        folder.mkdir()
        place = self._stage.s3() if self._on_s3 else self._stage.local(folder / "local")
        table = _Table(self._run, self._stage, place, folder / "table")
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
    steps = [*STEPS, LOST_ANSWER, RANDOM_MOMENT]
    if run.counts["rounds"] >= ROUNDS_FOR_EACH_PLACE:
        return [(step, [name]) for name in places for step in steps]
    return [(step, places) for step in steps] if run.counts["rounds"] >= ROUNDS_FOR_ALL else []


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
        *(kill_counts.kills(step, place) for place in PLACES for step in (*STEPS, LOST_ANSWER, RANDOM_MOMENT)),
        *map(jvm_deaths, (*JVM_STEPS, RANDOM_MOMENT)),
        kill_counts.OUTLIVED,
        DAMAGED,
        RANDOM_NAMES,
        IN_PARTITIONS,
        *JOBS_OF.values(),
        *map(large_file.commits_of_a_part, PLACES),
    )

    def run(self, run: Run) -> None:
        """One table on local files and one on S3. Without a limit of rounds each step has its turn in each; with one
        a few have, and the JVM is killed once."""
        with stage(run.folder / "stage") as common, temporary_variables(common.environment):
            kill(run, common)


CAMPAIGN = Kill()
