"""The line of a probe among log events."""

import json
from typing import Any

import pytest

from infra.probe.log_lines import find_line

LINE = {"ts": "2026-11-25T10:00:00.000+00:00", "event": "probed", "id": "abc", "jvm": {"spark": "4.1.1"}}
PRINTED_MS = 1_795_600_800_000


def event(message: str, *, arrived_ms: int = PRINTED_MS + 2_500, stream: str = "stdout") -> dict[str, Any]:
    return {"message": message, "ingestionTime": arrived_ms, "logStreamName": f"probe-abc/{stream}"}


TEXT = json.dumps(LINE)
CUT = TEXT.index("4.1.1") + 1
"""Within a value, where a line end would not be JSON."""


@pytest.mark.parametrize(
    "messages",
    [
        [TEXT],
        ["before", TEXT, "after"],
        [f'before {{"a": 1}}\n{TEXT}\nafter'],
        [TEXT[:CUT], TEXT[CUT:]],
    ],
    ids=["one event", "between others", "one of several lines of an event", "in two events"],
)
def test_the_line_is_found_however_it_is_divided_into_events(messages: list[str]) -> None:
    found = find_line([event("WARN spark", stream="stderr"), *map(event, messages)], "abc")
    assert found.line == LINE
    assert found.secs == 2.5


def test_the_line_of_another_probe_is_not_taken() -> None:
    assert find_line([event(TEXT)], "another").line is None


def test_without_the_line_the_last_errors_are_kept() -> None:
    noise = [event(f"INFO {n}") for n in range(50)]
    trace = event("Error: it broke\n\tat java.lang.Thread\n\t... 3 more", stream="stderr")
    found = find_line([*noise, trace, event("blizzard: expected Python 3.11", stream="stderr"), event("bye")], "abc")
    assert (found.line, found.last_lines) == (None, ("Error: it broke", "blizzard: expected Python 3.11"))


def test_without_errors_the_last_lines_are_kept_and_without_lines_nothing() -> None:
    assert find_line([event(f"line {n}") for n in range(9)], "abc").last_lines == tuple(
        f"line {n}" for n in range(4, 9)
    )
    assert find_line([], "abc").last_lines == ()


def test_half_a_line_is_no_line() -> None:
    assert find_line([event(TEXT[:90])], "abc").line is None


def test_the_time_of_arrival_may_be_unknown() -> None:
    assert find_line([{**event(TEXT), "ingestionTime": None}], "abc").secs is None
