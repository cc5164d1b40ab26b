"""The events that trigger the dispatcher, parsed. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from blizzard.dispatch.wake import NotAWakeUp, read_wake_up
from blizzard.errors import PermanentError
from functions.dispatcher.job_request import pipeline_of

JOB_STATE_CHANGE = "EMR Serverless Job Run State Change"


class UnknownEvent(PermanentError):
    """An event that the dispatcher does not subscribe to."""


@dataclass(frozen=True, slots=True)
class WakeUps:
    """Messages of the wake queue."""

    messages: Mapping[str, tuple[str, ...]]
    """Message ids by pipeline."""
    bad: Mapping[str, str] = field(default_factory=dict)
    """Messages that are not wake-ups: error texts by message id."""


@dataclass(frozen=True, slots=True)
class JobStateChanged:
    """A run changed its state. `pipeline` is None for a run that is not Blizzard's."""

    pipeline: str | None
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class UnnamedRunChanged:
    """A run changed its state, and the event has no name. The run records give its pipeline."""

    run_id: str


@dataclass(frozen=True, slots=True)
class EveryPipeline:
    """The schedule fired, or a run changed that has neither name nor id."""


Trigger = WakeUps | JobStateChanged | UnnamedRunChanged | EveryPipeline


def read_trigger(event: Mapping[str, Any]) -> Trigger:
    """Raises UnknownEvent."""
    if isinstance(event.get("Records"), list):
        return _wake_ups(event["Records"])
    if event.get("detail-type") == JOB_STATE_CHANGE and isinstance(event.get("detail"), dict):
        return _job_state(event["detail"])
    if event.get("schedule") == "dispatch":
        return EveryPipeline()
    raise UnknownEvent(
        "expected messages of the wake queue, an event `EMR Serverless Job Run State Change` or "
        f'{{"schedule": "dispatch"}}, found {event!s:.300}; correct the rule, schedule or mapping that sends this'
    )


def _wake_ups(records: list[Any]) -> WakeUps:
    messages: dict[str, tuple[str, ...]] = {}
    bad: dict[str, str] = {}
    for record in records:
        if not isinstance(record, dict) or record.get("eventSource") != "aws:sqs":
            raise UnknownEvent(f"expected records of SQS, found {record!s:.300}; correct the event source mapping")
        try:
            pipeline = read_wake_up(record["body"])
        except NotAWakeUp as error:
            bad[record["messageId"]] = str(error)
        else:
            messages[pipeline] = (*messages.get(pipeline, ()), record["messageId"])
    return WakeUps(messages, bad)


def _job_state(detail: Mapping[str, Any]) -> Trigger:
    name, run_id = detail.get("jobRunName"), detail.get("jobRunId")
    if isinstance(name, str) and name:
        return JobStateChanged(pipeline_of(name), name, str(detail.get("state")))
    return UnnamedRunChanged(run_id) if isinstance(run_id, str) and run_id else EveryPipeline()
