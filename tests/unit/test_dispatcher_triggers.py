"""Which pipelines each event of the dispatcher is about."""

from typing import Any

import pytest

from functions.dispatcher.triggers import (
    EveryPipeline,
    JobStateChanged,
    Trigger,
    UnknownEvent,
    UnnamedRunChanged,
    WakeUps,
    read_trigger,
)
from tests.unit.dispatcher_events import sample, wakes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wake", WakeUps({"events": ("00000000-0000-4000-8000-000000000021",)})),
        ("emr_job_state", JobStateChanged("events", "blizzard-events", "SUCCESS")),
        ("schedule_dispatch", EveryPipeline()),
    ],
)
def test_each_sample_is_read_as_its_trigger(name: str, expected: Trigger) -> None:
    assert read_trigger(sample(name)) == expected


def test_a_run_without_a_name_is_known_by_its_id_and_without_an_id_concerns_all_pipelines() -> None:
    event = sample("emr_job_state")
    del event["detail"]["jobRunName"]
    assert read_trigger(event) == UnnamedRunChanged(event["detail"]["jobRunId"])
    del event["detail"]["jobRunId"]
    assert read_trigger(event) == EveryPipeline()


def test_wakes_are_grouped_by_pipeline_and_bad_messages_are_separate() -> None:
    event = wakes("events", "clicks", "events")
    event["Records"].append({**event["Records"][0], "messageId": "m3", "body": "hello"})
    found = read_trigger(event)
    assert isinstance(found, WakeUps)
    assert found.messages == {"events": ("m0", "m2"), "clicks": ("m1",)}
    assert list(found.bad) == ["m3"]


UNKNOWN = [{}, {"schedule": "sweep"}, {"detail-type": "Object Created", "detail": {}}, {"Records": [{"body": "x"}]}]


@pytest.mark.parametrize("event", UNKNOWN, ids=str)
def test_an_event_of_another_shape_is_an_error_that_shows_it(event: dict[str, Any]) -> None:
    with pytest.raises(UnknownEvent, match=r"expected .*, found"):
        read_trigger(event)
