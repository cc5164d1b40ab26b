"""Wake-ups: one message per pipeline and window, delivered after the window, so that no append of it is missed."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.dispatch.wake import NotAWakeUp, WakeNotSent, Waker, WakeUp, read_wake_up, wake_up_for


@dataclass
class FakeFifo:
    """SQS's FIFO queue with a delay: of equal deduplication ids it keeps the first, for five minutes."""

    delay_secs: float
    now_ts: float = 0.0
    down: bool = False
    calls: int = 0
    seen: dict[str, float] = field(default_factory=dict)
    deliveries: list[tuple[float, str]] = field(default_factory=list)

    def send(self, wake: WakeUp, /) -> None:
        self.calls += 1
        if self.down:
            raise WakeNotSent("the queue is gone")
        if self.now_ts - self.seen.get(wake.deduplication_id, -1e9) >= 300:
            self.seen[wake.deduplication_id] = self.now_ts
            self.deliveries.append((self.now_ts + self.delay_secs, read_wake_up(wake.body)))


def waker(queue: FakeFifo, errors: list[tuple[str, dict[str, object]]] | None = None) -> Waker:
    def log_error(event: str, /, **fields: object) -> None:
        if errors is not None:
            errors.append((event, fields))

    return Waker(queue.send, queue.delay_secs, log_error)


@given(
    st.sampled_from([1.0, 15.0, 60.0, 0.1]),
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 2), st.sampled_from(["a", "b"])), min_size=1, max_size=30),
)
def test_each_append_is_delivered_within_two_windows(window_secs: float, appends: list[tuple[float, int, str]]) -> None:
    queue = FakeFifo(window_secs)
    containers = [waker(queue) for _ in range(3)]
    for now_ts, container, pipeline in sorted(appends):
        queue.now_ts = now_ts
        assert containers[container].wake([pipeline], now_ts=now_ts) == 0
    for now_ts, _, pipeline in appends:
        late = [at - now_ts for at, name in queue.deliveries if name == pipeline]
        # A hair of rounding at a window's edge.
        assert any(-1e-9 < wait <= 2 * window_secs for wait in late)
    windows = {(pipeline, int(now_ts // window_secs)) for now_ts, _, pipeline in appends}
    assert len(queue.deliveries) <= len(windows) + 1


def test_each_pipeline_is_woken_once_however_many_sources_were_appended() -> None:
    queue = FakeFifo(15.0)
    waker(queue).wake(["a", "b", "a"], now_ts=0.0)
    assert [name for _, name in queue.deliveries] == ["a", "b"]


def test_a_pipeline_is_woken_once_in_a_window() -> None:
    queue = FakeFifo(15.0)
    one = waker(queue)
    for now_ts in (30.0, 31.0, 44.9):
        one.wake(["a"], now_ts=now_ts)
    assert queue.calls == 1
    one.wake(["a"], now_ts=45.0)
    assert queue.calls == 2


def test_a_failed_wake_up_is_logged_counted_and_retried() -> None:
    queue, errors = FakeFifo(15.0, down=True), []
    one = waker(queue, errors)
    assert one.wake(["a", "b"], now_ts=0.0) == 2
    assert [(event, fields["pipeline"]) for event, fields in errors] == [("wake_failed", "a"), ("wake_failed", "b")]
    queue.down = False
    assert one.wake(["a"], now_ts=1.0) == 0
    assert [name for _, name in queue.deliveries] == ["a"]


def test_a_message_is_what_the_dispatcher_reads() -> None:
    wake = wake_up_for("events", now_ts=100.0, window_secs=15.0)
    assert (wake.group_id, wake.deduplication_id) == ("events", "events-6")
    assert json.loads(wake.body) == {"pipeline": "events"}
    assert read_wake_up(wake.body) == "events"


@pytest.mark.parametrize("body", ["", "hello", "{}", "[]", '{"pipeline": 7}', "null"])
def test_any_other_message_is_not_a_wake_up(body: str) -> None:
    with pytest.raises(NotAWakeUp, match="expected"):
        read_wake_up(body)
