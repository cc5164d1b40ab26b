"""Every log event and every metric is documented with its fields."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from spark_job.ports.stopwatch import TurnSecs
from tests.unit.documents import DEPLOYED, calls, fences, first_cells, first_texts, name_of, section, text, words

LOGGING = {"log", "_log", "log_warning", "_log_warning", "log_error", "_log_error", "info", "warning", "error"}
PARTS = [field.name for field in fields(TurnSecs)]
"""The timed parts of one turn of the loop."""


def logged(*folders: str) -> dict[str, set[str]]:
    """Each event that is logged, with the names of its fields as far as they stand in the call."""
    found: dict[str, set[str]] = {}
    for call in calls(*folders):
        for event in first_texts(call) if name_of(call) in LOGGING else ():
            if re.fullmatch(r"[a-z]+(_[a-z]+)*", event):
                found.setdefault(event, set()).update(fields_of(call))
    return found


def fields_of(call: ast.Call) -> Iterator[str]:
    """Keyword arguments; Powertools takes them as a dict, `extra`."""
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Dict) and keyword.arg == "extra":
            yield from (str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant))
        elif keyword.arg not in (None, "extra"):
            yield keyword.arg


def test_every_event_that_is_logged_is_documented_with_its_fields() -> None:
    rows = first_cells(text("docs/log-events.md"))
    events = logged(*DEPLOYED)
    assert {"batch_committed", "object_skipped", "segment_appended", "config_reload_failed"} <= set(events)
    assert set(rows) == set(events)
    missing = {event: names - words(rows[event]) for event, names in events.items()}
    assert {event: names for event, names in missing.items() if names} == {}


def test_documented_events_have_the_fields_that_are_logged() -> None:
    rows = first_cells(text("docs/log-events.md"))
    lines = [line for fence in fences("console", "json") for line in fence.body.splitlines() if '"event": ' in line]
    shown = [json.loads(line) for line in lines]
    assert {"swept", "recovered", "drained"} <= {event["event"] for event in shown}
    for event in shown:
        documented = re.findall(r"`(\w+)`", rows[event["event"]].split("|")[1])
        assert [*event] == ["ts", "event", *documented]
        assert list(event.get("secs", PARTS)) == PARTS


def test_each_part_of_a_turn_that_is_timed_is_documented() -> None:
    explained = re.findall(r"^- (`.+`): ", text("docs/log-events.md"), re.MULTILINE)
    assert words("\n".join(explained)) == set(PARTS)


def test_the_progress_of_a_run_knows_only_events_that_are_logged() -> None:
    tree = ast.parse(text("blizzard/cli/progress.py"))
    constants = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {value for value in constants if re.fullmatch(r"[a-z]+_[a-z_]+", value)}
    fields_used = {name for names in logged("spark_job").values() for name in names}
    totals = set(re.findall(r"^    (\w+): int = 0$", text("spark_job/loop/ingest.py"), re.MULTILINE))
    assert named - fields_used - totals <= set(logged(*DEPLOYED))


@pytest.mark.parametrize(
    ("function", "heading", "known"),
    [("collector", "## The function", "FilesAppended"), ("sweeper", "## The sweeper", "FilesMissed")],
)
def test_every_metric_is_documented(function: str, heading: str, known: str) -> None:
    metrics = set(re.findall(r'^        "([A-Z]\w+)": ', text(f"functions/{function}/report.py"), re.MULTILINE))
    assert known in metrics
    assert set(first_cells(section("docs/events.md", heading))) == metrics


def test_every_metric_of_the_dispatcher_is_documented() -> None:
    metrics = set(re.findall(r'"([A-Z]\w+)"(?:\]|:)', text("functions/dispatcher/report.py")))
    assert "OldestPendingSeconds" in metrics
    assert set(first_cells(section("docs/events.md", "## The dispatcher"))) == metrics
