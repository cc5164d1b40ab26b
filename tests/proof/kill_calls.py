"""Campaign `kill-calls`: collector, sweeper, dispatcher and job as processes that are killed between any two of their
calls, hundreds of times a minute, over the product's own code and local files."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blizzard.dead_letters import DeadLetters
from blizzard.dispatch.service import Life
from tests.proof.breaks import MARKS_ALONE, NO_LOOK, NO_TXN, OLDER_STATE, TWO_RUNS
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.kill_calls_account import Account, History, account, strangers, wrong_letters
from tests.proof.kill_calls_life import BUCKET, IDENTITY, PREFIX, SETTINGS, Folders
from tests.proof.kill_calls_service import STARTED, active_runs, end_run
from tests.proof.kill_calls_table import WRITTEN, FileDelta
from tests.proof.kill_lives import KILLED, Lives
from tests.proof.kill_lives import Life as Process
from tests.unit.fakes import POISON, REFUSED

ACTORS = ("collector", "sweeper", "late sweeper", "dispatcher", "job")
SOMEBODY = "somebody"
"""Who deletes the pending manifest."""
DECISIVE = {"job": WRITTEN, "dispatcher": STARTED}
"""The call before or after which a death matters most, so that many die there."""
TURNS = 60
"""Lives of a round before those that live on."""
MOST_AT_THE_END = 20
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


@dataclass
class World:
    """One round: a source, its queue, its table, the service of runs, and who dies there."""

    run: Run
    lives: Lives
    folder: Path
    rng: random.Random
    queue: list[list[str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    history: History = field(default_factory=lambda: History(SETTINGS.rules.interval_bytes))
    landed: int = 0
    places: set[str] = field(default_factory=set)
    promised: set[str] = field(default_factory=set)
    """Receipts of commits that a job believes to have made."""
    served: set[tuple[str, str]] = field(default_factory=set)
    """Path and etag of files whose messages are gone from the queue."""
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many the last life of each kind had that came to its end, and how many any of them had."""
    died: str = ""
    """Who had the last life, if he was killed."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.folders = Folders.of(self.folder)

    # -- what lands

    def land(self) -> None:
        again = bool(self.history.paths) and self.rng.random() < 0.15
        path = self.rng.choice(self.history.paths) if again else self._new_path()
        self.landed += 1
        large = not again and self.rng.random() < 0.1
        lines = [f"{path} {self.landed} {n}" for n in range(60 if large else self.rng.randint(0, 4))]
        lines = [f"{REFUSED}{line}" if self.rng.random() < 0.05 else line for line in lines]
        poison = not again and not large and self.rng.random() < 0.05
        body = POISON if poison else "".join(f"{line}\n" for line in lines).encode()
        info = self.folders.landing.put(path, body)
        self.history.put(path, info.etag, body)
        told = self.rng.random() < 0.7
        if told:
            self.queue.append([f"message-{self.landed}", self._message(path, info.size, info.etag)])
        self.run.counts["files overwritten" if again else "files"] += 1
        self.run.counts["events withheld"] += not told
        self.done.append(f"{'overwritten' if again else 'landed'}: {path}{'' if told else ', no event'}")

    def _new_path(self) -> str:
        return f"{self.rng.choice('abc')}{len(self.history.paths):04d}.txt"

    def _message(self, path: str, size: int, etag: str) -> str:
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}.000Z"
        described = {"key": PREFIX + path, "size": size, "eTag": etag, "sequencer": f"{self.landed:016X}"}
        record = {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "eventTime": moment,
            "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": BUCKET}, "object": described},
        }
        return json.dumps({"Records": [record]})

    # -- who lives, and dies

    def turn(self) -> None:
        for _ in range(self.rng.randint(0, 2)):
            self.land()
        who = self.rng.choice(ACTORS) if self.rng.random() < 0.95 else SOMEBODY
        if self._runs():
            who = "job" if self.rng.random() < 0.7 else who
        elif who == "job":
            who = "dispatcher"
        if self.died == "dispatcher" and self.rng.random() < 0.5:
            who = "dispatcher"  # the one before him may have started a run of which no record tells
        dies = who in self.calls and self.rng.random() < (0.5 if who == "dispatcher" else 0.8)
        nth = self.rng.randint(1, max(1, self.rng.choice(self.calls[who]))) if dies else 0
        at = DECISIVE.get(who, "") if self.rng.random() < 0.4 else ""
        self.live(who, min(nth, self.rng.randint(1, 2)) if at else nth, at=at, after=self.rng.random() < 0.5)

    def live(self, who: str, nth: int = 0, *, at: str = "", after: bool = False) -> None:
        messages = self._received() if who == "collector" else []
        process = self.start(who, messages, nth=nth, at=at, after=after)
        ended = process.wait()
        if ended not in (KILLED, 0):
            self.fail(f"a {who} ended with {ended}: {process.log.read_text()[-1500:]}")
        self._take_note(who, process, killed=ended == KILLED)
        if who == "job":
            self._end_run(Life.FAILED if ended == KILLED else Life.SUCCEEDED)
        self.check_runs()
        process.log.unlink()

    def start(self, who: str, messages: list[list[str]], **more: Any) -> Process:
        return self.lives.start(
            "tests.proof.kill_calls_life:live",
            who=who,
            folder=str(self.folder),
            seed=str(self.rng.random()),
            variant=self.run.variant,
            messages=messages,
            **more,
        )

    def check_runs(self) -> None:
        active = self._runs()
        if len(active) > 1:
            self.fail(f"{len(active)} runs are active at once: {active}")

    def _received(self) -> list[list[str]]:
        self.rng.shuffle(self.queue)
        return self.queue[:4]

    def _take_note(self, who: str, process: Process, *, killed: bool) -> None:
        events = process.events()
        for event in events:
            if event["event"] == "collected" and not killed and self.rng.random() > 0.1:
                self.acknowledge({message_id for message_id, _ in self.queue[:4]} - set(event["failed"]))
        self.believe(events)
        died = next((f"{e['who']} {e['where']}" for e in events if e["event"] == "died"), None)
        for calls in (event["calls"] for event in events if event["event"] == "ended"):
            self.calls[who] = calls, max(calls, *self.calls.get(who, (0,)))
        if who == SOMEBODY:
            self.served.clear()  # what was announced may be gone, and is for the sweeps to find
            self.run.counts["times that the manifest was deleted"] += 1
        self.run.counts["lives"] += 1
        self.died = who if killed else ""
        if killed:
            self.run.counts["kills"] += 1
            self.run.counts[f"kills of {'' if who == SOMEBODY else 'the '}{who}"] += 1
            self.places.add(died or who)
        self.done.append(f"{who}: {f'killed {died}' if killed else 'came to its end'}")

    def acknowledge(self, gone: set[str]) -> None:
        """The queue forgets messages that a collector was done with."""
        self.served |= {self._file_of(body) for message_id, body in self.queue if message_id in gone}
        self.queue = [message for message in self.queue if message[0] not in gone]

    @staticmethod
    def _file_of(body: str) -> tuple[str, str]:
        described = json.loads(body)["Records"][0]["s3"]["object"]
        return described["key"].removeprefix(PREFIX), described["eTag"]

    def believe(self, events: list[dict[str, Any]]) -> None:
        receipt = ""
        for event in events:
            if event["event"] == "batch_read":
                receipt = event["receipt"]
            elif event["event"] == "batch_committed":
                self.promised.add(receipt)

    def _runs(self) -> list[str]:
        return active_runs(self.folders.service)

    def _end_run(self, life: Life) -> None:
        for run_id in self._runs():
            end_run(self.folders.service, run_id, life)

    # -- the end

    def finish(self) -> None:
        """Nobody dies any more. Only what the dispatcher starts is run."""
        while self.queue:
            self.live("collector")
        self.check_served()
        for sweep in ("sweeper", "late sweeper", "sweeper"):
            self.live(sweep)
            self._drain()
        self.compare()

    def check_served(self) -> None:
        """After a job each file whose newest event a collector was done with is in the table as it is now, without any
        sweep."""
        self._drain()
        delta = self._delta()
        self._check_log(delta)
        found = self._account(delta, (path for path, etag in self.served if etag == self.history.newest(path).etag))
        if gone := [*found.missing, *found.silent]:
            self.fail(f"collected, and after a job neither in the table nor dead-lettered: {gone[:5]}")
        if old := [*found.more, *found.in_progress]:
            self.fail(f"collected, and after a job in the table as it is no more: {old[:5]}")

    def _delta(self) -> FileDelta:
        delta = FileDelta(self.folders.delta)
        delta.load()
        return delta

    def _letters(self) -> list[dict[str, Any]]:
        return [*DeadLetters(self.folders.state, IDENTITY.state_prefix, IDENTITY.source_id).letters()]

    def _account(self, delta: FileDelta, paths: Iterable[str]) -> Account:
        return account(self.history, delta.rows, self._letters(), paths)

    def _drain(self) -> None:
        for _ in range(MOST_AT_THE_END):
            self.live("dispatcher")
            if not self._runs():
                return
            self.live("job")
        self.fail(f"after {MOST_AT_THE_END} runs that nobody killed the dispatcher still starts another one")

    def compare(self) -> None:
        """Every record of every file against every row and every dead letter."""
        delta = self._delta()
        self._check_log(delta)
        found = self._account(delta, self.history.paths)
        self.run.counts["files overwritten while in progress"] += len(found.in_progress)
        self.run.counts["records"] += found.records
        if found.missing or found.more or found.silent:
            self.fail(f"missing {found.missing[:5]}, doubled or unexpected {found.more[:5]}, silent {found.silent[:5]}")
        if unknown := strangers(self.history, delta.rows):
            self.fail(f"rows of files that never were: {unknown[:5]}")
        if wrong := [*wrong_letters(self.history, self._letters())]:
            self.fail("; ".join(wrong))

    def _check_log(self, delta: FileDelta) -> None:
        """At any time: no record twice, each commit under the next number, and none that a job believes in is gone."""
        counted = Counter((row.path, row.row) for row in delta.rows)
        if doubled := [record for record, times in counted.items() if times > 1]:
            self.fail(f"doubled: {doubled[:5]}")
        committed = {json.loads(commit.user_metadata or "{}").get("receipt") for commit in delta.commits}
        if gone := self.promised - committed:
            self.fail(f"a job believes to have committed what is not in the log: {sorted(gone)[:3]}")
        sequences = [sequence for commit in delta.commits for sequence in commit.txns.values()]
        if sequences and sequences != [*range(sequences[0], sequences[0] + len(sequences))]:
            self.fail(f"expected sequences one after the other, found {sequences}")

    def fail(self, why: str) -> None:
        raise Failed(why, [f"seed {self.run.seed}, round {self.run.counts['rounds']}", *self.done])


@dataclass(frozen=True)
class KillCalls:
    name = "kill-calls"
    about = "collector, sweeper, dispatcher and job, killed between any two of their calls"
    variants = VARIANTS

    def run(self, run: Run) -> None:
        places: set[str] = set()
        with Lives(run.folder / "lives", ["tests.proof.kill_calls_life"]) as lives:
            for number, rng in run.rounds():
                run.say(f"kills {', '.join(ACTORS)}: round {number}")
                world = World(run, lives, run.folder / f"round-{number}", rng)
                for _ in range(TURNS):
                    world.turn()
                world.finish()
                places |= world.places
                run.counts["places killed at"] = len(places)


CAMPAIGN = KillCalls()
