"""One table of the campaign `kill-calls`, the files that land for it, and the processes that work on it."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blizzard.dispatch.service import RunStatus
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.settled_letters import SettledLetters
from infra.local.processes.server_process import REGION, LocalAws
from tests.proof import file_names
from tests.proof.campaign import Failed, Run
from tests.proof.kill.fork_server import KILLED, ForkedProcess, ForkServer
from tests.proof.kill_calls.account import Account, History, account, changed, strangers, wrong_letters
from tests.proof.kill_calls.messages import event_of, file_of
from tests.proof.kill_calls.operator import READ_ANEW, REBUILT
from tests.proof.kill_calls.places import Places
from tests.proof.kill_calls.processes import IDENTITY, LEDGER_BREAKER, ON_S3, OPERATOR, SETTINGS, Folders
from tests.proof.kill_calls.service import STARTED, active_runs, end_run
from tests.proof.kill_calls.table import BROKEN_REPLACES, WRITTEN, FileDelta
from tests.proof.ledger.breaks import SHOWN_BY
from tests.unit.fakes import POISON, REFUSED

ACTORS = ("collector", "sweeper", "late sweeper", "dispatcher", "job", OPERATOR)
SOMEBODY = "somebody"
"""Who deletes the pending manifest."""
SHARE_OF_OTHERS, SHARE_OF_THE_SHOWING, SHARE_OF_SOMEBODY = 0.12, 0.3, 0.4
RUNS_WRITTEN, RUNS_MERGED = "runs of the ledger written", "runs of the ledger merged from others"
LEDGER_LOSSES = {
    "ledger_run_unreadable": "runs of the ledger that could not be read",
    "ledger_rebuilding": "runs of the ledger written anew",
    "ledger_merge_failed": "merges of the ledger that failed",
}
"""Counts by event."""
DAMAGED = "times that the ledger was damaged"
DECISIVE = {"job": WRITTEN, "dispatcher": STARTED, OPERATOR: WRITTEN}
"""The call before or after which a death matters most, so that many die there."""
MOST_AT_THE_END = 20
REBUILDS = "states that an operator rebuilt"
PUT_BACK, LETTERS_SETTLED = "records that an operator put back", "most letters of a table that are settled"
OVERWRITTEN_IN_PART = "files overwritten while a part of them was in the table"


@dataclass
class World:
    """A source, its queue, its table, the service of runs, and the processes. `rng` is that of the round."""

    run: Run
    fork_server: ForkServer
    folder: Path
    rng: random.Random
    queue: list[list[str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    history: History = field(default_factory=lambda: History(SETTINGS.rules.interval_bytes))
    landed: int = 0
    begun: list[str] = field(default_factory=list)
    """Files of which a part is in the table."""
    kills: int = 0
    """Over this table."""
    compared: int = 0
    """Records; each counts once, however often the table is compared."""
    changed: set[tuple[str, str]] = field(default_factory=set)
    """Path and etag of files that were overwritten while in progress, and have been counted."""
    aws: LocalAws | None = None
    """Whose S3 all of it lies on, in a bucket of its own; None: on this machine's disk."""
    places: Places = field(default_factory=Places)
    promised: set[str] = field(default_factory=set)
    """Receipts of commits that a job believes to have made."""
    served: set[tuple[str, str]] = field(default_factory=set)
    """Path and etag of files whose messages are gone from the queue."""
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By kind of process: the number of calls of the last completed one, and the most of any."""
    read_anew: set[str] = field(default_factory=set)
    """Paths of files that an operator may have read as a whole, once more."""
    died: str = ""
    """Kind of the last process, if it was killed."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.where = str(self.folder)
        if self.aws is not None:
            bucket = self.folder.name
            place = {"LocationConstraint": REGION}
            self.aws.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
            self.where = f"{ON_S3}{bucket}"
        self.folders = Folders.of(self.where)

    # -- what lands

    def land(self) -> None:
        begun = self.begun if self.rng.random() < 1 / 3 else []
        again = bool(begun) or (bool(self.history.paths) and self.rng.random() < 0.15)
        path = self.rng.choice(begun or self.history.paths) if again else self._new_path()
        if path in self.begun:
            self.begun.remove(path)
            self.run.counts[OVERWRITTEN_IN_PART] += 1
        self.landed += 1
        large = not again and self.rng.random() < 0.1
        lines = [f"{path} {self.landed} {n}" for n in range(60 if large else self.rng.randint(0, 4))]
        lines = [f"{REFUSED}{line}" if self.rng.random() < 0.05 else line for line in lines]
        poison = not again and not large and self.rng.random() < 0.05
        body = POISON if poison else "".join(f"{line}\n" for line in lines).encode()
        info = self.folders.landing.put(path, body)
        self.history.put(path, info.etag, body)
        told = self.rng.random() < (0.3 if begun else 0.7)
        if told:
            self.queue.append([f"message-{self.landed}", event_of(path, info.size, info.etag, self.landed)])
        self.run.counts["files overwritten" if again else "files"] += 1
        self.run.counts["events withheld"] += not told
        self.done.append(f"{'overwritten' if again else 'landed'}: {path}{'' if told else ', no event'}")

    def _new_path(self) -> str:
        return file_names.drawn(self.rng, len(self.history.paths), ".txt", self.run)

    # -- processes and their kills

    def turn(self) -> None:
        for _ in range(self.rng.randint(0, 2)):
            self.land()
        share = SHARE_OF_THE_SHOWING if self.run.variant in SHOWN_BY else SHARE_OF_OTHERS
        others = SOMEBODY if self.rng.random() < SHARE_OF_SOMEBODY else LEDGER_BREAKER
        who = self.rng.choice(ACTORS) if self.rng.random() > share else others
        if self.run.variant in BROKEN_REPLACES and self.rng.random() < SHARE_OF_THE_SHOWING:
            who = OPERATOR
        elif self._runs():
            who = "job" if self.rng.random() < 0.7 else who
        elif who == "job":
            who = "dispatcher"
        if self.died == "dispatcher" and self.rng.random() < 0.5:
            who = "dispatcher"  # the killed one may have started a run without a record
        dies = who in self.calls and self.rng.random() < (0.5 if who == "dispatcher" else 0.8)
        nth = self.rng.randint(1, max(1, self.rng.choice(self.calls[who]))) if dies else 0
        at, after = DECISIVE.get(who, "") if self.rng.random() < 0.4 else "", self.rng.random() < 0.5
        if dies and self.rng.random() < 0.5 and (spared := self.places.spared(who)):
            nth, (at, after) = 1, self.rng.choice(spared)
        self.run_to_end(who, min(nth, self.rng.randint(1, 2)) if at else nth, at=at, after=after)

    def run_to_end(self, who: str, nth: int = 0, *, at: str = "", after: bool = False) -> None:
        messages = self._received() if who == "collector" else []
        process = self.start(who, messages, nth=nth, at=at, after=after)
        ended = process.wait()
        if ended not in (KILLED, 0):
            self.fail(f"a {who} ended with {ended}: {process.log.read_text()[-1500:]}")
        self._take_note(who, process, killed=ended == KILLED)
        if who == "job":
            self._end_run(RunStatus.FAILED if ended == KILLED else RunStatus.SUCCEEDED)
            self.begun = self.history.in_progress(self._delta().rows)
        self.check_runs()
        process.log.unlink()

    def start(self, who: str, messages: list[list[str]], **more: Any) -> ForkedProcess:
        return self.fork_server.start(
            "tests.proof.kill_calls.processes:run_process",
            who=who,
            environment={} if self.aws is None else self.aws.environment(),
            where=self.where,
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

    def _take_note(self, who: str, process: ForkedProcess, *, killed: bool) -> None:
        events = process.events()
        for event in events:
            if event["event"] == "collected" and not killed and self.rng.random() > 0.1:
                self.acknowledge({message_id for message_id, _ in self.queue[:4]} - set(event["failed"]))
        self.believe(events)
        died = next((event for event in events if event["event"] == "died"), None)
        for event in events:
            if event["event"] == "ended":
                self.calls[who] = event["calls"], max(event["calls"], *self.calls.get(who, (0,)))
                self.places.saw(who, event["names"])
        if who == SOMEBODY:
            self.served.clear()  # what was announced may be gone, and is for the sweeps to find
            self.run.counts["times that the manifest was deleted"] += 1
        self.run.counts["lives"] += 1
        self.died = who if killed else ""
        if killed:
            self.run.counts["kills"] += 1
            self.run.counts[f"kills of {_the(who)}"] += 1
            self.kills += 1
            if self.aws is not None:
                self.run.counts["kills on S3"] += 1
                self.run.counts[f"kills of {_the(who)} on S3"] += 1
            if died:
                self.places.died(who, died["at"], after=died["after"])
        where = f"killed {died['where'] if died else ''}" if killed else "came to its end"
        self.done.append(f"{who}: {where}")

    def _damaged(self, how: str) -> None:
        self.run.counts[DAMAGED] += 1
        self.run.counts[f"{DAMAGED}: {how}"] += 1
        self.done.append(how)

    def acknowledge(self, gone: set[str]) -> None:
        """The queue forgets messages that a collector was done with."""
        self.served |= {file_of(body) for message_id, body in self.queue if message_id in gone}
        self.queue = [message for message in self.queue if message[0] not in gone]

    def believe(self, events: list[dict[str, Any]]) -> None:
        receipt = ""
        for event in events:
            if event["event"] == "batch_read":
                receipt = event["receipt"]
            elif event["event"] == "batch_committed":
                self.promised.add(receipt)
            elif event["event"] == REBUILT:
                self.run.counts[REBUILDS] += bool(event["problems"])
            elif event["event"] == READ_ANEW:
                self.read_anew.update(event["paths"])
            elif event["event"] == "damaged":
                self._damaged(event["how"])
            elif event["event"] == "ledger_run_written":
                self.run.counts[RUNS_MERGED if event["merged_runs"] else RUNS_WRITTEN] += 1
            elif event["event"] in LEDGER_LOSSES:
                self.run.counts[LEDGER_LOSSES[event["event"]]] += 1

    def _runs(self) -> list[str]:
        return active_runs(self.folders.service)

    def _end_run(self, status: RunStatus) -> None:
        for run_id in self._runs():
            end_run(self.folders.service, run_id, status)

    # -- the end

    def finish(self) -> None:
        """Without further kills. The job runs only if the dispatcher starts it."""
        while self.queue:
            self.run_to_end("collector")
        self.check_served()
        for sweep in ("sweeper", "late sweeper", "sweeper"):
            self.run_to_end(sweep)
            self._drain()
        self.compare()
        self.done.clear()

    def check_served(self) -> None:
        """After a job each file whose newest event a collector was done with is in the table as it is now, without any
        sweep."""
        self._drain()
        delta = self._delta()
        self._check_log(delta)
        found = self._account(delta, (path for path, etag in self.served if etag == self.history.newest(path).etag))
        if gone := [*found.missing, *found.silent]:
            self.fail(f"collected, and after a job neither in the table nor dead-lettered: {gone[:5]}")
        if found.more:
            self.fail(f"collected, and after a job in the table as it is no more: {found.more[:5]}")

    def _delta(self) -> FileDelta:
        delta = FileDelta(self.folders.delta)
        delta.load()
        return delta

    def _letters(self) -> list[dict[str, Any]]:
        return [*DeadLetters(self.folders.state, IDENTITY.state_prefix, IDENTITY.source_id).letters()]

    def _account(self, delta: FileDelta, paths: Iterable[str]) -> Account:
        settled = SettledLetters(self.folders.state, IDENTITY.state_prefix).read()
        if settled.unreadable:
            self.fail(f"marks of settled letters cannot be read: {settled.unreadable[:3]}")
        letters = self._letters()
        self.run.counts[LETTERS_SETTLED] = max(
            self.run.counts[LETTERS_SETTLED], sum(settled.of(letter) is not None for letter in letters)
        )
        return account(self.history, delta.rows, [each for each in letters if settled.of(each) is None], paths)

    def _drain(self) -> None:
        for _ in range(MOST_AT_THE_END):
            self.run_to_end("dispatcher")
            if not self._runs():
                return
            self.run_to_end("job")
        self.fail(f"after {MOST_AT_THE_END} runs that nobody killed the dispatcher still starts another one")

    def compare(self) -> None:
        """Every record of every file against every row and every dead letter."""
        delta = self._delta()
        self._check_log(delta)
        found = self._account(delta, self.history.paths)
        letters = self._letters()
        overwritten = {(letter["path"], letter["etag"]) for letter in letters if changed(letter)}
        self.run.counts["files overwritten while in progress"] += len(overwritten - self.changed)
        self.changed |= overwritten
        self.run.counts["records"] += max(0, found.records - self.compared)
        self.compared = max(found.records, self.compared)
        self.run.counts[PUT_BACK] = max(self.run.counts[PUT_BACK], found.put_back)
        if found.missing or found.more or found.silent:
            self.fail(f"missing {found.missing[:5]}, doubled or unexpected {found.more[:5]}, silent {found.silent[:5]}")
        if unknown := strangers(self.history, delta.rows):
            self.fail(f"rows of files that never were: {unknown[:5]}")
        if wrong := [*wrong_letters(self.history, letters, self.read_anew)]:
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
        raise Failed(why, [f"seed {self.run.seed}, round {self.run.counts['rounds']}, {self.where}", *self.done])


def _the(who: str) -> str:
    return who if who in (SOMEBODY, LEDGER_BREAKER) else f"the {who}"
