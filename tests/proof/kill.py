"""Campaign `kill`: the real job over real Delta, killed at every named step and at random moments, over one table."""

import gzip
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from infra.local.process import local_aws
from tests.proof import kill_place
from tests.proof.campaign import Failed, Run
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_lives import CHECKOUT, KILLED, Life, Lives
from tests.proof.kill_names import LOST_ANSWER, RANDOM_MOMENT, STEPS, VARIANTS
from tests.proof.kill_place import LocalPlace, Place, S3Place
from tests.spark.lake import SHORT_LIFE

FOLDER, SOURCE = "landing", "events:landing"
SETTINGS = {"on_overwrite": "replace", "checkpoint": {"interval_files": 5, "interval_bytes": "20KB"}}
LARGE_RECORDS = 500
"""Of some 60 bytes that do not compress: three batches."""
SHORT = (
    "in the write of a data file",
    "before the commit",
    "after the commit and before its answer",
    "before the copy",
    LOST_ANSWER,
    RANDOM_MOMENT,
)
"""The steps of a run with a limit of rounds."""
LIFE_SECS = 1.5
"""About what a life takes that is not killed; random moments lie within."""


@dataclass
class _Landing:
    """What comes between two lives. Each record says in its id which it is."""

    place: Place
    small: list[str] = field(default_factory=list)
    count: int = 0
    records: int = 0

    def land(self, rng: random.Random, run: Run) -> Iterator[str]:
        """New files, of which some are announced; says what it did. What has to be asked of the table is rare: it takes
        Spark seconds."""
        paths = [self._new(rng, run) for _ in range(rng.randint(2, 4))]
        if self.small and rng.random() < 0.1:
            paths.append(self._overwritten(rng, run))
        told = [path for path in paths if rng.random() < 0.7]
        again = [rng.choice(self.small)] if self.small and rng.random() < 0.1 else []
        kill_place.announce(self.place, SOURCE, FOLDER, [*told, *again])
        run.counts["events withheld"] += len(paths) - len(told)
        run.counts["events repeated"] += len(again)
        yield f"landed {', '.join(paths)}; announced {', '.join([*told, *again]) or 'none'}"

    def _new(self, rng: random.Random, run: Run) -> str:
        self.count += 1
        late = rng.random() < 0.04
        path = f"{'a' if late else 'b'}-{self.count:06d}.ndjson.gz"
        large = rng.random() < 0.1
        self._put(path, LARGE_RECORDS if large else rng.randint(0, 40), rng, run)
        run.counts["files"] += 1
        run.counts["files larger than a batch"] += large
        run.counts["files that come late"] += late
        if not large:
            self.small.append(path)
        return path

    def _overwritten(self, rng: random.Random, run: Run) -> str:
        path = rng.choice(self.small)
        self._put(path, rng.randint(1, 40), rng, run)
        run.counts["files overwritten"] += 1
        return path

    def _put(self, path: str, records: int, rng: random.Random, run: Run) -> None:
        lines = [self._line(rng, run) for _ in range(records)]
        self.place.put(FOLDER, path, gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    def _line(self, rng: random.Random, run: Run) -> str:
        self.records += 1
        broken = rng.random() < 0.02
        run.counts["records broken" if broken else "records"] += 1
        text = json.dumps({"id": f"{self.records}-{rng.randbytes(20).hex()}", "n": self.records})
        return text[:-1] if broken else text


class _Table:
    """One table, and the jobs that come to it one after the other."""

    def __init__(self, run: Run, place: Place, folder: Path, lives: Lives, *, mixed: bool) -> None:
        self.place = place
        self._run = run
        self._folder = folder
        self._lives = lives
        self._mixed = mixed
        self._jvm: Jvm | None = None
        self._landing = _Landing(place)
        self._done: list[str] = []
        """Since everything was last found to be in order."""
        self._words = kill_place.write_config(place, folder / "pipelines.yaml", {FOLDER: SETTINGS})

    def round(self, rng: random.Random) -> None:
        """Each step once in an order of its own (in a short run a few of them), then a life that lives, and the
        comparison."""
        steps = [*STEPS, LOST_ANSWER, RANDOM_MOMENT, RANDOM_MOMENT] if self._mixed else [*SHORT]
        rng.shuffle(steps)
        jvm_dies = rng.randrange(len(steps))
        for number, step in enumerate(steps):
            self._done += self._landing.land(rng, self._run)
            together = rng.random() < 0.3 if self._mixed else number == jvm_dies
            self._die(step, rng, together=together, own=self._mixed and rng.random() < 0.1)
        self._live_on()
        self._compare()

    def close(self) -> None:
        """Of the JVM, at the latest now."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None

    # -- lives

    def _die(self, step: str, rng: random.Random, *, together: bool, own: bool) -> None:
        nth = rng.choice([1, 1, 1, 2, 3]) if self._mixed else 1
        if step == "between two calls of storage":
            nth = rng.randint(1, 60)
        whom = "a job with a JVM of its own" if own else "job and JVM" if together else "the job"
        self._run.say(f"kills {whom} {step} on {self.place.name}")
        life = self._start(step, nth, rng, together=together, own=own)
        if step == RANDOM_MOMENT:
            time.sleep(rng.uniform(0, LIFE_SECS * (4 if own else 1)))
            self._kill(life, together=together, own=own)
        ended = life.wait()
        if step == LOST_ANSWER:
            self._run.counts["answers of commits lost"] += any(e["event"] == "commit_unclear" for e in life.events())
        if ended == KILLED:
            if together and not own:
                self.close()
            self._run.counts["kills"] += 1
            self._run.counts[f"kills {step}"] += 1
            self._run.counts["kills with the JVM"] += together or own
        else:
            self._run.counts["lives that ended before their kill"] += step != LOST_ANSWER
        self._done.append(f"{whom} {step} (time {nth}): ended with {ended}")
        if ended not in (KILLED, 0):
            self._fail(f"a job ended with {ended}: {_last_words(life)}")

    def _start(self, step: str, nth: int, rng: random.Random, *, together: bool, own: bool) -> Life:
        words, environment, group = self._words, dict(self.place.environment), 0
        if own:
            words = [*words, "--jars", str(CHECKOUT / "jars"), *self._own_conf()]
            environment |= {"PYTHONPATH": str(CHECKOUT)}
        else:
            jvm = self._running_jvm()
            environment |= jvm.environment
            group = jvm.group if together else 0
        return self._lives.start(
            "tests.proof.kill_job:live",
            environment=environment,
            group=group,
            words=words,
            step=step,
            nth=nth,
            together=together or own,
            seed=str(rng.random()),
            variant=self._run.variant,
        )

    def _own_conf(self) -> list[str]:
        options = {
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {SHORT_LIFE}",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
        }
        return [word for key, value in options.items() for word in ("--spark-conf", f"{key}={value}")]

    def _running_jvm(self) -> Jvm:
        if self._jvm is None:
            self._jvm = Jvm(self._folder / "jvm", environment=self.place.environment, s3_endpoint=self.place.endpoint)
            self._run.counts["JVMs"] += 1
        return self._jvm

    def _kill(self, life: Life, *, together: bool, own: bool) -> None:
        if together and not own and self._jvm is not None:
            self._jvm.kill()
        elif own:
            life.kill_group()
        life.kill()

    def _live_on(self) -> None:
        """Until a run has nothing left to do."""
        for _ in range(3):
            life = self._start("", 1, random.Random(0), together=False, own=False)
            ended = life.wait()
            self._done.append(f"a job that lives: ended with {ended}")
            if ended != 0:
                self._fail(f"a job that was not killed ended with {ended}: {_last_words(life)}")
            drained = [event for event in life.events() if event["event"] == "drained"]
            if drained and not drained[-1]["commits"]:
                return
        self._fail("the third job in a row still finds something to commit")

    # -- the comparison

    def _compare(self) -> None:
        verdict = kill_place.verdict(self.place, SOURCE, FOLDER)
        self._run.counts["rows compared"] += verdict.rows_out
        if not verdict.good:
            self._fail("; ".join(verdict.lines()))
        if wrong := kill_place.broken_sequence(self.place, SOURCE):
            self._fail(wrong)
        segments = [*self.place.table().list(f"{kill_place.prefix_of(SOURCE)}/pending/")]
        if len(segments) > 12:
            self._fail(f"{len(segments)} segments are left in the manifest after a job that had nothing to do")
        self._run.counts["comparisons"] += 1
        self._done.clear()

    def _fail(self, why: str) -> None:
        raise Failed(f"{self.place.name}: {why}", [f"seed {self._run.seed}", *self._done])


def _last_words(life: Life) -> str:
    return life.log.read_text()[-1500:] if life.log.exists() else ""


@dataclass(frozen=True)
class Kill:
    name = "kill"
    about = "the real job over real Delta, killed at every step and at random moments, on local files and on S3"
    variants = VARIANTS

    def run(self, run: Run) -> None:
        """Rounds on local files and on S3 in turn; one round alone is on local files. With a limit of rounds the JVM
        dies once in each, else as often as a machine's."""
        with ExitStack() as stack:
            lives = stack.enter_context(Lives(run.folder / "lives", ["tests.proof.kill_job"]))
            mixed = run.budget.rounds is None
            tables: list[_Table] = []
            for number, rng in run.rounds():
                turn = number % 2
                if turn == len(tables):
                    if turn == 0:
                        (run.folder / "local").mkdir()
                        place: Place = LocalPlace(run.folder / "local")
                    else:
                        aws = stack.enter_context(local_aws())
                        stack.enter_context(patch.dict(os.environ, aws.environment()))
                        place = S3Place(aws, "kill")
                    folder = run.folder / f"table-{turn}"
                    folder.mkdir()
                    tables.append(_Table(run, place, folder, lives, mixed=mixed))
                    stack.callback(tables[-1].close)
                tables[turn].round(rng)
                if mixed and len(tables) > 1:
                    tables[turn].close()  # two JVMs at once would only take memory


CAMPAIGN = Kill()
