"""A proxy before S3 whose faults follow a plan, which a seed decides."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fixtures_faulty_s3 import Fault, FaultyS3, Handler, losing_the_answer, refusing, resetting

STALL_SECS, DELAY_SECS = 20.0, 0.02
WRITE_ID = "x-amz-meta-blizzard-write-id"
"""Header by which the log store recognises its own commit."""
SEGMENTS, RUNS, LOG = "/pending/", "/_runs/", "/_delta_log/"
"""Parts of paths that are written by a conditional PUT: a segment, a run record, a Delta commit."""
Recorded = tuple[str, bytes]
"""The path of a conditional PUT that S3 has carried out, and its content."""


def cut_off(handler: "PlannedHandler") -> None:
    """The response breaks off somewhere, sometimes before its first byte."""
    status, headers, body = handler.ask()
    handler.answer(status, headers, body, cut_at=int(len(body) * handler.drawn))
    handler.reset()


def stalling(handler: "PlannedHandler") -> None:
    """During an outage, until it is over: like a network that is down."""
    server = handler.server
    server.over.wait(timeout=server.plan.outage_left_secs() or server.stall_secs)
    handler.reset()


def stalling_after_it_was_done(handler: "PlannedHandler") -> None:
    handler.ask()
    stalling(handler)


def delaying(handler: Handler) -> None:
    answer = handler.ask()
    time.sleep(DELAY_SECS)
    handler.answer(*answer)


def delaying_for_long(handler: "PlannedHandler") -> None:
    """Before the request reaches S3, or before its response reaches the client."""
    shortest, longest = handler.server.plan.delay_secs
    secs = shortest + handler.drawn * (longest - shortest)
    if int(handler.drawn * 1000) % 2:
        time.sleep(secs)
        handler.answer(*handler.ask())
        return
    answer = handler.ask()
    time.sleep(secs)
    handler.answer(*answer)


def failing_after_it_was_done(handler: Handler) -> None:
    handler.ask()
    refusing(500, "InternalError")(handler)


ALWAYS: Mapping[str, Fault] = {
    "503 before": refusing(503, "SlowDown"),
    "500 before": refusing(500, "InternalError"),
    "reset before": resetting,
    "timeout before": stalling,  # type: ignore[dict-item]
    "delayed": delaying,
}
READS: Mapping[str, Fault] = {**ALWAYS, "cut off": cut_off}  # type: ignore[dict-item]
WRITES: Mapping[str, Fault] = {
    **ALWAYS,
    "answer lost": losing_the_answer,
    "500 though done": failing_after_it_was_done,
    "timeout though done": stalling_after_it_was_done,  # type: ignore[dict-item]
}
CONDITIONAL: Mapping[str, Fault] = {**WRITES, "409": refusing(409, "ConditionalRequestConflict")}
LOST = ("answer lost", "500 though done", "timeout though done")
"""The worst faults, which are more frequent than others."""
MOST_REMEMBERED = 100_000
"""A plan counts the occurrences of so many requests; then it starts counting anew."""
MOST_CONDITIONAL = 0.5
"""Conditional writes fail three times as often as others, up to this rate."""
BY_KIND: Mapping[str, Mapping[str, Fault]] = {"read": READS, "write": WRITES, "conditional write": CONDITIONAL}
DELAYED = "delayed for long"
BY_NAME: Mapping[str, Fault] = {**READS, **CONDITIONAL, DELAYED: delaying_for_long}  # type: ignore[dict-item]
STRETCH = "short outages"
"""In place of a fault's name, where only some faults are allowed."""
MOST_LOSSES_OF_ONE = 2
"""The most lost responses of one commit when responses are lost at random: more would exhaust the client's retries."""
OUTAGES = ("503 before", "500 before", "reset before", "timeout before")
"""All requests of an outage fail in the same way."""


@dataclass(frozen=True, slots=True)
class Outage:
    """From one request on, all requests fail in the same way for so long."""

    after_requests: int
    secs: float
    fault: str


@dataclass(slots=True)
class Plan:
    """Each request fails with probability `rate`, decided by the seed, the request and its number of occurrences; with
    probability `stretches` it begins a short outage."""

    seed: object
    rate: float = 0.0
    stretches: float = 0.0
    stretch_secs: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest duration of these outages."""
    outage: Outage | None = None
    """An outage that is certain to occur."""
    then: list[Outage] = field(default_factory=list)
    """Further outages, each so many requests after the end of the one before."""
    delays: float = 0.0
    """Probability that a request is delayed without any other fault."""
    delay_secs: tuple[float, float] = (0.0, 0.0)
    commit_losses: float = 0.0
    """Probability that a Delta commit is carried out and its response lost, in one of the ways of `losses`."""
    losses: Sequence[str] = LOST
    only: Collection[str] | None = None
    """The allowed faults; None: all."""
    lose_delta_commits: int = 0
    """So many Delta commits, the first ones, are carried out and their responses lost, whatever `rate` is."""
    counts: Counter[str] = field(default_factory=Counter)
    lost_delta_commits: list[str] = field(default_factory=list)
    """Paths of the commits whose responses were lost, in order."""
    _times: Counter[tuple[str, str]] = field(default_factory=Counter)
    _requests: int = 0
    _now: str = ""
    """The fault of the current outage; empty: there is none."""
    _began_secs: float = 0.0
    _until_secs: float = 0.0
    _outage_secs: float = 0.0

    def due(self, method: str, path: str, kind: str) -> tuple[str, float]:
        """Returns the name of the fault, empty for none, and a random number below 1 that belongs to this request."""
        self.counts["requests"] += 1
        self._requests += 1
        if len(self._times) >= MOST_REMEMBERED:
            self._times.clear()
        self._times[method, path] += 1
        rng = random.Random(f"{self.seed}/{method}/{path}/{self._times[method, path]}")
        self._begin_outage(rng)
        if self._in_outage():
            return self._counted(self._now, when="in an outage: "), 0.0
        delta_commit = kind == "conditional write" and LOG in path
        if delta_commit and len(self.lost_delta_commits) < self.lose_delta_commits:
            return self._lost("answer lost", path, kind), 0.0
        if delta_commit and self._loses_by_chance(rng, path):
            return self._lost(rng.choice(self.losses), path, kind), 0.0
        if self.delays and rng.random() < self.delays:
            return self._counted(DELAYED), rng.random()
        often = max(self.rate, min(self.rate * 3, MOST_CONDITIONAL)) if kind == "conditional write" else self.rate
        if rng.random() >= often:
            return "", 0.0
        names = [*BY_KIND[kind]]
        name = rng.choices(names, [3 if name in LOST else 1 for name in names])[0]
        if self.only is not None and name not in self.only:
            return "", 0.0
        return self._lost(name, path, kind), rng.random()

    def _loses_by_chance(self, rng: random.Random, path: str) -> bool:
        may = self.lost_delta_commits.count(path) < MOST_LOSSES_OF_ONE
        return may and self.commit_losses > 0 and rng.random() < self.commit_losses

    def outage_left_secs(self) -> float:
        """Remaining seconds of the current outage; 0: there is none."""
        return max(0.0, self._until_secs - time.monotonic()) if self._now else 0.0

    @property
    def outage_is_over(self) -> bool:
        """Whether all certain outages are over."""
        return self.outage is None and not self.then and not self.outage_left_secs()

    def end(self) -> None:
        """Ends all faults: no further request uses this plan."""
        self._end_outage()
        self.counts["seconds of outage"] += round(self._outage_secs)
        self._outage_secs = 0.0

    def _begin_outage(self, rng: random.Random) -> None:
        if self._in_outage():
            return
        if self.outage is not None and self._requests > self.outage.after_requests:
            self._now, secs, self.outage = self.outage.fault, self.outage.secs, None
        elif self.stretches and rng.random() < self.stretches and (self.only is None or STRETCH in self.only):
            self._now, secs = rng.choice(OUTAGES), rng.uniform(*self.stretch_secs)
        else:
            return
        self._began_secs = time.monotonic()
        self._until_secs = self._began_secs + secs
        self.counts[f"outages: {self._now}"] += 1

    def _in_outage(self) -> bool:
        if self._now and time.monotonic() >= self._until_secs:
            self._end_outage()
        return bool(self._now)

    def _end_outage(self) -> None:
        if self._now:
            self._outage_secs += min(time.monotonic(), self._until_secs) - self._began_secs
            if self.outage is None and self.then:
                self.outage, self._requests = self.then.pop(0), 0
        self._now = ""

    def _lost(self, name: str, path: str, kind: str) -> str:
        if name in LOST and kind == "conditional write":
            what = "Delta commit" if LOG in path else "run's record" if RUNS in path else "segment"
            self.counts[f"answers lost of a {what}"] += 1
            self.lost_delta_commits += [path] if LOG in path else []
        return self._counted(name)

    def _counted(self, name: str, when: str = "") -> str:
        self.counts["faults"] += 1
        self.counts[f"fault {when}{name}"] += 1
        return name


class PlannedHandler(Handler):
    """Asks the plan first. `drawn`: the request's random number below 1."""

    server: "BadStorage"  # type: ignore[assignment]
    disable_nagle_algorithm = True
    drawn = 0.0

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name, self.drawn = self.server.due_for(self.command, self.path, self.kind)
        if name:
            BY_NAME[name](self)
        else:
            self.answer(*self.ask())

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815

    @property
    def kind(self) -> str:
        if self.headers.get("If-None-Match") == "*":
            return "conditional write"
        return "read" if self.command in ("GET", "HEAD") else "write"

    def ask(self) -> tuple[int, list[tuple[str, str]], bytes]:
        conditional = self.kind == "conditional write"
        if conditional and SEGMENTS in self.path and not self.server.conditions:
            del self.headers["If-None-Match"]
        status, headers, body = super().ask()
        if conditional and status == 200:
            self.server.created.append((self.path, self.body))
        if not self.server.keeps_write_ids:
            headers = [(name, value) for name, value in headers if name.lower() != WRITE_ID]
        return status, headers, body

    def remember(self, status: int | None) -> None:
        """Too many to record."""


class BadStorage(FaultyS3):
    """`conditions`: whether S3 receives the conditions of PUTs of segments; without them every PUT overwrites.
    `keeps_write_ids`: whether S3 returns who wrote an object of the log. `stall_secs`: how long a stalled request hangs
    outside an outage."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.RequestHandlerClass: Callable[..., Any] = PlannedHandler
        self.plan = Plan(0)
        self.conditions = self.keeps_write_ids = True
        self.stall_secs = STALL_SECS
        self.created: list[Recorded] = []
        self._planning = threading.Lock()

    def due_for(self, method: str, path: str, kind: str) -> tuple[str, float]:
        with self._planning:
            return self.plan.due(method, path, kind)


@contextmanager
def bad_storage(endpoint: str) -> Iterator[BadStorage]:
    with BadStorage(endpoint) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
