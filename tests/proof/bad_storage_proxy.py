"""A proxy in front of S3 that fails by a plan, which a seed decides."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fixtures_bad_day import BadDay, Fault, Handler, losing_the_answer, refusing, resetting

STALL_SECS, DELAY_SECS = 20.0, 0.02
Recorded = tuple[str, bytes]
"""The path of a conditional PUT that S3 has carried out, and what it wrote."""


def cut_off(handler: "PlannedHandler") -> None:
    """The answer breaks off somewhere, sometimes before its first byte."""
    status, headers, body = handler.ask()
    handler.answer(status, headers, body, cut_at=int(len(body) * handler.drawn))
    handler.reset()


def stalling(handler: Handler) -> None:
    handler.server.over.wait(timeout=STALL_SECS)
    handler.reset()


def stalling_after_it_was_done(handler: Handler) -> None:
    handler.ask()
    stalling(handler)


def delaying(handler: Handler) -> None:
    answer = handler.ask()
    time.sleep(DELAY_SECS)
    handler.answer(*answer)


def failing_after_it_was_done(handler: Handler) -> None:
    handler.ask()
    refusing(500, "InternalError")(handler)


ALWAYS: Mapping[str, Fault] = {
    "503 before": refusing(503, "SlowDown"),
    "500 before": refusing(500, "InternalError"),
    "reset before": resetting,
    "timeout before": stalling,
    "delayed": delaying,
}
READS: Mapping[str, Fault] = {**ALWAYS, "cut off": cut_off}  # type: ignore[dict-item]
WRITES: Mapping[str, Fault] = {
    **ALWAYS,
    "answer lost": losing_the_answer,
    "500 though done": failing_after_it_was_done,
    "timeout though done": stalling_after_it_was_done,
}
CONDITIONAL: Mapping[str, Fault] = {**WRITES, "409": refusing(409, "ConditionalRequestConflict")}
LOST = ("answer lost", "500 though done", "timeout though done")
"""The worst ones, which come more often than others."""
MOST_CONDITIONAL = 0.5
"""Conditional writes fail three times as often as others, up to this rate."""
BY_KIND: Mapping[str, Mapping[str, Fault]] = {"read": READS, "write": WRITES, "conditional write": CONDITIONAL}


@dataclass(slots=True)
class Plan:
    """Each request fails with probability `rate`, by what the seed, the request and how often it came so far say; and
    all requests fail, one like the other, for a stretch that begins with probability `stretches` at any of them."""

    seed: object
    rate: float = 0.0
    stretches: float = 0.0
    stretch_requests: int = 0
    without: frozenset[str] = frozenset()
    """Faults that are left out."""
    counts: Counter[str] = field(default_factory=Counter)
    _times: Counter[tuple[str, str]] = field(default_factory=Counter)
    _stretch_left: int = 0

    def due(self, method: str, path: str, kind: str) -> tuple[str, float]:
        """The name of the fault, empty for none, and a number below 1 that belongs to this request."""
        self.counts["requests"] += 1
        self._times[method, path] += 1
        rng = random.Random(f"{self.seed}/{method}/{path}/{self._times[method, path]}")
        if self._stretch_left > 0:
            self._stretch_left -= 1
            return self._counted("503 before", when="in a stretch: "), 0.0
        if self.stretches and rng.random() < self.stretches:
            self._stretch_left = self.stretch_requests
        often = max(self.rate, min(self.rate * 3, MOST_CONDITIONAL)) if kind == "conditional write" else self.rate
        if rng.random() >= often:
            return "", 0.0
        names = [name for name in BY_KIND[kind] if name not in self.without]
        weights = [3 if name in LOST else 1 for name in names]
        name = rng.choices(names, weights)[0]
        if name in LOST and kind == "conditional write":
            self.counts[f"answers lost of a {'Delta commit' if '/_delta_log/' in path else 'segment'}"] += 1
        return self._counted(name), rng.random()

    def _counted(self, name: str, when: str = "") -> str:
        self.counts["faults"] += 1
        self.counts[f"fault {when}{name}"] += 1
        return name


class PlannedHandler(Handler):
    """Asks the plan first. `drawn`: the request's own number below 1."""

    server: "BadStorage"  # type: ignore[assignment]
    disable_nagle_algorithm = True
    drawn = 0.0

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name, self.drawn = self.server.due_for(self.command, self.path, self.kind)
        if name:
            BY_KIND[self.kind][name](self)
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
        if conditional and not self.server.conditions:
            del self.headers["If-None-Match"]
        answer = super().ask()
        if conditional and answer[0] == 200:
            self.server.created.append((self.path, self.body))
        return answer

    def remember(self, status: int | None) -> None:
        """Too many to keep."""


class BadStorage(BadDay):
    """`conditions`: whether S3 gets to see them; without, every conditional PUT overwrites."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.RequestHandlerClass: Callable[..., Any] = PlannedHandler
        self.plan = Plan(0)
        self.conditions = True
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
