"""Campaign `soak`: steady traffic with kills, bad files and sweeps, during which nothing grows."""

import gzip
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.proof import kill_place
from tests.proof.campaign import Failed, Run
from tests.proof.growth import growth
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_lives import Life, Lives
from tests.proof.kill_place import LocalPlace

FOLDER, SOURCE = "landing", "events:landing"
SWEEP_SECS = 2.0
SETTINGS = {
    "checkpoint": {"interval_files": 50, "interval_secs": 0},
    "sweep": {"interval_secs": SWEEP_SECS, "late_interval_secs": 30},
}
COMMIT_SECS = 120.0
"""After which a round that is not committed counts as lost."""
KILL_SHARE, JVM_SHARE = 1 / 150, 1 / 1500
"""Of the rounds, after which the job or all of Spark is killed. A life has to last for its growth to be seen."""
COMPARED_EVERY = 500
MIB = 1 << 20


@dataclass
class _Traffic:
    """What lands, round by round."""

    place: LocalPlace
    count: int = 0

    def land(self, rng: random.Random, run: Run) -> list[str]:
        """A few files; those that are announced."""
        paths = [self._file(rng, run) for _ in range(rng.randint(1, 4))]
        told = [path for path in paths if rng.random() < 0.9]
        run.counts["events withheld"] += len(paths) - len(told)
        kill_place.announce(self.place, SOURCE, FOLDER, told)
        return told

    def _file(self, rng: random.Random, run: Run) -> str:
        self.count += 1
        path = f"{self.count:08d}.ndjson.gz"
        lines = [json.dumps({"id": f"{self.count}-{n}", "n": n}) for n in range(rng.randint(1, 30))]
        if rng.random() < 0.1:
            lines[rng.randrange(len(lines))] = '{"id": '
            run.counts["broken records"] += 1
        body = gzip.compress("\n".join(lines).encode())
        if rng.random() < 0.02:
            body = body[: len(body) // 2]
            run.counts["broken files"] += 1
        self.place.put(FOLDER, path, body)
        run.counts["files"] += 1
        return path


@dataclass
class _Life:
    """A process and what was measured of it, commit by commit."""

    life: Life
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seen: int = 0

    def commit_secs(self) -> list[float]:
        """Of the commits since it was last asked."""
        secs = [event["secs"]["total"] for event in self.life.events() if event["event"] == "batch_committed"]
        new, self.seen = secs[self.seen :], len(secs)
        return new


class _Soak:
    def __init__(self, run: Run, jvm: Jvm, stack: ExitStack) -> None:
        self._run = run
        self._stack = stack
        folder = run.folder
        self._place = LocalPlace(folder / "lake")
        self._traffic = _Traffic(self._place)
        # The job goes on, and sweeps: no `--once`.
        words = kill_place.write_config(self._place, folder / "pipelines.yaml", {FOLDER: SETTINGS})
        self._words = [word for word in words if word != "--once"]
        self._once = words
        self._lives = stack.enter_context(Lives(folder / "lives", ["tests.proof.soak_job"]))
        self._jvm = jvm
        self._jvm_samples: list[float] = []
        self._now = self._start()

    def round(self, number: int, rng: random.Random) -> None:
        self._await(self._traffic.land(rng, self._run))
        self._measure()
        if rng.random() < JVM_SHARE:
            self._kill(jvm=True)
        elif rng.random() < KILL_SHARE:
            self._kill(jvm=False)
        if number % COMPARED_EVERY == COMPARED_EVERY - 1:
            self._judge()
        self._run.say(f"{', '.join(self._last())}")

    def end(self) -> None:
        """What no event announced is found by a last job, and everything is compared."""
        self._judge()
        self._now.life.kill()
        self._now.life.wait()
        last = self._lives.start(
            "tests.proof.soak_job:live", environment=self._jvm.environment, words=self._once, variant=""
        )
        if (ended := last.wait()) != 0:
            raise Failed(f"the last job ended with {ended}: {last.log.read_text()[-1000:]}")
        verdict = kill_place.verdict(self._place, SOURCE, FOLDER)
        self._run.counts["rows compared"] = verdict.rows_out
        if not verdict.good:
            raise Failed("\n".join(verdict.lines()))

    def _start(self) -> _Life:
        life = self._lives.start(
            "tests.proof.soak_job:live",
            environment=self._jvm.environment,
            words=self._words,
            variant=self._run.variant,
        )
        return _Life(life)

    def _kill(self, *, jvm: bool) -> None:
        self._judge()
        self._now.life.kill()
        self._now.life.wait()
        self._run.counts["kills"] += 1
        if jvm:
            self._jvm.kill()
            self._jvm = self._stack.enter_context(Jvm(self._run.folder / "jvm"))
            self._jvm_samples.clear()
            self._run.counts["kills of Spark"] += 1
        self._now = self._start()

    # -- what is measured

    def _await(self, paths: list[str]) -> None:
        """Until the job's state knows them. A sweep may have found them first."""
        deadline = time.monotonic() + COMMIT_SECS
        while missing := self._unknown(paths):
            if time.monotonic() > deadline:
                raise Failed(f"{missing} not ingested after {COMMIT_SECS:g} s", self._last_words())
            time.sleep(0.02)

    def _unknown(self, paths: list[str]) -> list[str]:
        if not (text := self._state_text()):
            return paths
        state = json.loads(text)
        settled, files = state["partition_watermarks"].get("", ""), state["source_state"]["files"]
        return [path for path in paths if path > settled and path not in files]

    def _state_text(self) -> str:
        copy = Path(self._place.table_uri, f"{kill_place.prefix_of(SOURCE)}_checkpoint.json")
        return copy.read_text() if copy.exists() else ""

    def _measure(self) -> None:
        life, samples = self._now.life, self._now.samples
        segments = Path(self._place.table_uri, kill_place.prefix_of(SOURCE), "pending")
        secs = self._now.commit_secs()
        self._run.counts["commits"] += len(secs)
        samples["time of a commit"] += secs
        samples["memory of the driver"].append(_resident_mib(life.pid))
        samples["number of open files"].append(len(list(Path(f"/proc/{life.pid}/fd").iterdir())))
        samples["size of the state"].append(len(self._state_text()))
        samples["number of segments"].append(len(list(segments.glob("*.json"))))
        self._jvm_samples.append(_resident_mib(self._jvm.group))

    def _judge(self) -> None:
        measured = {**self._now.samples, "memory of the JVM": self._jvm_samples}
        found = [growth(name, samples) for name, samples in measured.items()]
        if grown := [what for what in found if what is not None]:
            raise Failed("\n".join(grown), [f"seed {self._run.seed}, {self._run.counts['rounds']} rounds"])
        self._run.counts["times that nothing had grown"] += 1

    def _last(self) -> Iterator[str]:
        return (f"{name} {values[-1]:,.4g}" for name, values in self._now.samples.items() if values)

    def _last_words(self) -> list[str]:
        return self._now.life.log.read_text().splitlines()[-5:]


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


class Soak:
    name = "soak"
    about = "steady traffic with kills, bad files and sweeps: memory, state, open files, segments and times do not grow"
    variants: Mapping[str, str] = {
        "memory is kept after each commit": "memory of the driver grows",
        "a file stays open after each commit": "number of open files grows",
        "segments are not trimmed": "number of segments grows",
        "no sweep ever settles a file": "size of the state grows",
    }

    def run(self, run: Run) -> None:
        with Jvm(run.folder / "jvm") as jvm:
            soak(run, jvm)


def soak(run: Run, jvm: Jvm) -> None:
    """`jvm`: the first one; it is not the last if it gets killed."""
    with ExitStack() as stack:
        table = _Soak(run, jvm, stack)
        for number, rng in run.rounds():
            table.round(number, rng)
        table.end()


CAMPAIGN = Soak()
