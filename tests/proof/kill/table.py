"""One table of the campaign `kill`, and the jobs that run on it one after the other, until each is killed."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from blizzard.state.identity import SourceIdentity
from infra.local.demo import reconcile
from infra.local.processes.checkout import CHECKOUT
from tests.proof import job_engines, large_file, new_fields, places, widening
from tests.proof.campaign import Failed, Run
from tests.proof.job_engines import JOBS_OF
from tests.proof.kill import kill_counts
from tests.proof.kill.commit_claims import CommitClaim, claimed_commits, missing_from_log, told
from tests.proof.kill.fork_server import KILLED, ForkedProcess
from tests.proof.kill.jvm import DAEMON, TRAP, is_gone
from tests.proof.kill.kill_counts import BEFORE_ITS_ROWS, MOST_KILLS, WIDENED_TABLE, PlannedKill
from tests.proof.kill.landing import Landing
from tests.proof.kill.letters import etags_of, wrong_letters
from tests.proof.kill.names import (
    DAMAGED,
    DAMAGED_SHARE,
    GAVE_UP,
    LOST_ANSWER,
    OPERATORS,
    OPERATORS_SHARE,
    RANDOM_MOMENT,
    REPLACING,
    SPARK_STARTED,
    Whom,
)
from tests.proof.kill.rows_by_spark import NotRead, rows_by_spark
from tests.proof.kill.stage import Stage
from tests.proof.ledger.damage import DAMAGES_BESIDE_RECEIPTS, damage
from tests.proof.places import COLUMNS, LoggedCommits, Place
from tests.spark.lake import SHORT_JOB, conf_options

FOLDER, SOURCE = "landing", "events:landing"
IDENTITY = SourceIdentity("events", FOLDER, places.prefix_of(SOURCE))
SETTINGS = {
    "on_overwrite": "replace",
    "checkpoint": {"interval_files": 5, "interval_bytes": "20KB"},
    **new_fields.ADD,
}
RUN_SECS, OWN_JVM_RUN_SECS = 1.5, 12.0
"""Random moments lie within this time, until the duration of a run is measured; the second is for a job with its own
JVM."""
OUTLIVES_SECS = 2.0
"""For a JVM that was killed to be gone once its driver has ended."""
RUNS_AT_THE_END = 3


class KilledTable:
    """One table, and the jobs that run on it one after the other."""

    def __init__(
        self,
        run: Run,
        stage: Stage,
        place: Place,
        folder: Path,
        *,
        engines: Sequence[str] = tuple(JOBS_OF),
        widens: bool = False,
    ) -> None:
        """`engines`: of the jobs, except where Spark's JVM is to be killed. `widens`: whether records widen a
        column; such a table is compared once."""
        self.place = place
        self.name = f"{place.name}, a column is widened" if widens else place.name
        self.widens = widens
        self._counted_as = WIDENED_TABLE if widens else place.name
        self._engines = engines
        self._run = run
        self._stage = stage
        self._landing = Landing(place, FOLDER, SOURCE, widens=widens)
        self._run_secs = RUN_SECS
        self._started_with = ""
        """The engine of the newest job; empty: it is an operator."""
        self._killed = ""
        """By which engine the last job ran that was killed, until another one has recovered."""
        self.kills = 0
        self._claims: set[CommitClaim] = set()
        """Commits that jobs have logged as made."""
        self._read_anew: set[str] = set()
        """Paths that operators had replaced."""
        self._named: set[str] = set()  # columns that files have brought, as of the last comparison
        self._parts: set[int] = set()  # versions of commits that left a part of a file to the next ones
        self._done: list[str] = []  # steps since the last successful comparison
        self.planned_kills: list[PlannedKill] = []
        """Since then."""
        folder.mkdir()
        self._folder = folder
        self._config = folder / "pipelines.yaml"
        settings = {**SETTINGS, **(widening.SETTINGS if widens else {})}
        self._words = places.write_config(place, self._config, {FOLDER: settings})

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
            self._note_parts(places.log_of(self.place.table()))  # damaged, the bases may no longer tell
            what = damage(self.place.table(), IDENTITY, rng, rng.choice(DAMAGES_BESIDE_RECEIPTS))
            self._run.counts[DAMAGED] += 1
            self._done.append(f"the ledger was damaged: {what}")
        self._run.say(f"kills {whom} {step} on {self.name}" if step else f"a life on {self.name}")
        process = self._start(step, nth, rng, whom, self._request(step, whom, rng))
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
            self._run.counts[kill_counts.kills(step, self._counted_as)] += 1
        died = bool(step) and self._has_died(whom, ended, jvm)
        in_use = any(event["event"] == SPARK_STARTED for event in events)
        if died:
            self._count_kill(step, whom, in_use=in_use)
        self._count_engines(events, step, died=died and whom is not Whom.JVM)
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
        kill_counts.count(self._run.counts, step, self._counted_as, whom, in_use=in_use)
        self._run.counts[BEFORE_ITS_ROWS] += self.widens and self._was_just_widened()

    def _count_engines(self, events: Sequence[Mapping[str, Any]], step: str, *, died: bool) -> None:
        """Of the newest job, which has logged these events. `step`: at which it was to die."""
        if not self._started_with:
            return
        by = job_engines.ran_by(self._started_with, events)
        if self._killed and any(event["event"] == "recovered" for event in events):
            self._run.counts[job_engines.resumed(self._killed, by)] += 1
            self._killed = ""
        if died:
            self._run.counts[job_engines.kills_of(by)] += 1
            self._run.counts[job_engines.kills_at(step, by)] += 1
            self._killed = by

    def _request(self, step: str, whom: Whom, rng: random.Random) -> str:
        """What an operator asks for who lives instead of a job; empty: nobody does. It changes no row and no letter."""
        small = self._landing.small
        if self._run.variant or whom is not Whom.JOB or step not in REPLACING or not small:
            return ""
        if rng.random() >= OPERATORS_SHARE:
            return ""
        paths = rng.sample(small, min(len(small), rng.randint(1, 3)))
        self._run.counts[OPERATORS] += 1
        self._read_anew.update(paths)
        self._done.append(f"an operator replaces {', '.join(paths)}")
        return json.dumps({"config": str(self._config), "sources": [SOURCE], "replace": True, "paths": paths})

    def _start(self, step: str, nth: int, rng: random.Random, whom: Whom, request: str = "") -> ForkedProcess:
        engine = self._engine(whom, rng)
        self._started_with = "" if request else engine
        self._run.counts[JOBS_OF[engine]] += not request
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
            request=request,
        )

    def _engine(self, whom: Whom, rng: random.Random) -> str:
        """Spark, if its JVM is to be killed."""
        return "spark" if whom is not Whom.JOB else rng.choice(self._engines)

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
            self._count_engines(events, "", died=False)
            drained = [event for event in events if event["event"] == "drained"]
            if drained and not drained[-1]["commits"]:
                self._run_secs = longest_secs
                return
            self._done += told(events)
        self._fail(f"the job after {RUNS_AT_THE_END - 1} that nobody killed still finds something to commit")

    # -- the comparison

    def compare(self) -> None:
        source, letters = places.source_of(self.place, FOLDER), places.letters(self.place, SOURCE)
        log = [*places.log_of(self.place.table())]
        names = self._check_schema(source, log)
        verdict = self._verdict(source, letters, names)
        self._run.counts["rows compared"] += verdict.rows_out
        if not verdict.good:
            self._fail("; ".join(verdict.lines()))
        etags = etags_of(self.place, FOLDER)
        if about_letters := [*wrong_letters(letters, source, etags, self._landing.overwritten, self._read_anew)]:
            self._fail("; ".join(about_letters))
        if wrong := places.broken_sequence(log, SOURCE) or missing_from_log(self._claims, log):
            self._fail(wrong)
        segments = [*self.place.table().list(f"{places.prefix_of(SOURCE)}/pending/")]
        if len(segments) > 12:
            self._fail(f"{len(segments)} segments are left in the manifest after a job that had nothing to do")
        self._run.counts[f"comparisons on {self._counted_as}"] += 1
        self._run.counts[new_fields.ADDED] += len({*names} - self._named)
        self._named |= {*names}
        self._note_parts(log)
        self._run.counts[large_file.commits_of_a_part(self._counted_as)] = len(self._parts)
        self._done.clear()
        self.planned_kills.clear()

    def _check_schema(self, source: reconcile.Source, log: LoggedCommits) -> list[str]:
        """Returns the columns that files have brought."""
        names = [name for name in new_fields.names_in(source.records.values()) if name != widening.COLUMN]
        if wrong := new_fields.wrong_schema(self.place, log, [SOURCE], names):
            self._fail(wrong)
        if self.widens:
            landing = self._landing
            had = {"landed_digits": landing.digits, "overwritten": landing.overwritten}
            if all_wrong := [*widening.complaints(self.place, log, {SOURCE: source.records}, **had)]:
                self._fail("; ".join(all_wrong))
            steps = [step for step in widening.steps(log) if step.is_widening]
            self._run.counts[widening.widened_on(self.place.name)] += len(steps)
            self._run.counts[widening.RESCUED] += widening.texts_in(source.records.values())
        return names

    def _verdict(
        self, source: reconcile.Source, letters: Sequence[Mapping[str, Any]], names: Sequence[str]
    ) -> reconcile.Reconciliation:
        if not self.widens:
            return places.verdict(self.place, source, letters, names)
        try:
            rows = rows_by_spark(self._stage.fork_server, self._stage.jvm(), self.place, self._folder / "rows.ndjson")
        except NotRead as error:
            self._fail(f"Spark cannot read the table: {error}")
        if wrong := widening.kept_beside(rows):
            self._fail(wrong)
        return reconcile.compare(source, rows, letters, [*COLUMNS, *names, widening.COLUMN])

    def _was_just_widened(self) -> bool:
        """Whether the newest version is a widening, whose batch has still to be committed."""
        log = [*places.log_of(self.place.table())]
        return any(step.is_widening and step.version == log[-1][0] for step in widening.steps(log))

    def _note_parts(self, log: LoggedCommits) -> None:
        self._parts |= large_file.versions_of_parts(log, self.place.table())

    def _fail(self, why: str) -> NoReturn:
        raise Failed(f"{self.name}: {why}", [f"seed {self._run.seed}", *self._done])


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
