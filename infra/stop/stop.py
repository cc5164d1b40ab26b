"""Pauses a stack, waits for its runs and stops its application, through the services' APIs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError, NoRegionError  # type: ignore[import-untyped]

from blizzard.errors import ConfigError, PermanentError
from functions.dispatcher.emr import ACTIVE

STOPPED = ("STOPPED", "CREATED")
"""States of an application that take a change; CREATED: it has never been started."""
CHANGEABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
"""States of a stack in which it can be updated."""
PAUSE = "Dispatching"
POLL_SECS = 5.0


class StopFailed(PermanentError):
    """The application is not stopped. The text says why, and what to do."""


class Clients(Protocol):
    def __call__(self, service: str, /) -> Any:
        """A client of this AWS service."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """`wait` sleeps for some seconds; `say` shows what is being waited for."""

    clock: Callable[[], float]
    wait: Callable[[float], None]
    say: Callable[[str], None]
    timeout_secs: float

    def until(self, what: Callable[[], str]) -> None:
        """Wait until `what` says nothing more. Raises StopFailed with what it said last."""
        deadline = self.clock() + self.timeout_secs
        while still := what():
            if self.clock() > deadline:
                raise StopFailed(
                    f"{still} after {self.timeout_secs:,.0f} s. The stack stays paused and nothing is lost; run the "
                    "command again, with CANCEL=1 to cancel runs, or deploy with Dispatching=on to go on."
                )
            self.say(still)
            self.wait(POLL_SECS)


def stop(stack: str, clients: Clients, waiting: Waiting, *, cancel: bool) -> str:
    """Returns the application's id. `cancel`: do not wait for active runs to end; what they had not committed is
    ingested by later runs.

    Raises ConfigError for a stack that does not exist or has no application of its own, StopFailed for all else.
    """
    try:
        return _stop(stack, clients, waiting, cancel=cancel)
    except NoRegionError as error:
        raise ConfigError(["AWS_REGION: expected the region of the stack, found nothing; export it"]) from error
    except (ClientError, BotoCoreError) as error:
        raise StopFailed(f"{error}. Allow the call, or correct what it names, and run the command again.") from error


def _stop(stack: str, clients: Clients, waiting: Waiting, *, cancel: bool) -> str:
    cloudformation, emr = clients("cloudformation"), clients("emr-serverless")
    found = _described(cloudformation, stack)
    application = _application(found)
    _pause(cloudformation, found, waiting)
    if cancel:
        for run_id in _active_runs(emr, application):
            emr.cancel_job_run(applicationId=application, jobRunId=run_id)
    waiting.until(lambda: _runs_left(emr, application))
    if _state(emr, application) not in STOPPED:
        emr.stop_application(applicationId=application)
        waiting.until(lambda: _not_yet_stopped(emr, application))
    return application


def _described(cloudformation: Any, stack: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        raise ConfigError(
            [f"STACK: expected the name of a stack in this account and region, found {stack!r}, which does not exist"]
        ) from error
    if PAUSE not in _parameters(found):
        raise ConfigError([f"STACK: expected a stack of Blizzard, found {stack!r} without the parameter {PAUSE}"])
    return found


def _application(stack: Mapping[str, Any]) -> str:
    if _parameters(stack).get("ApplicationId"):
        expected = "STACK: expected a stack with an application of its own"
        found = f"found {stack['StackName']!r}, which uses another one (ApplicationId)"
        raise ConfigError([f"{expected}, {found}; ask the owner of that to stop it"])
    return next(str(one["OutputValue"]) for one in stack["Outputs"] if one["OutputKey"] == "ApplicationId")


def _pause(cloudformation: Any, stack: Mapping[str, Any], waiting: Waiting) -> None:
    """No run is started from now on. Only the parameter changes; template and tags stay."""
    name, parameters = stack["StackName"], _parameters(stack)
    if stack["StackStatus"] not in CHANGEABLE:
        raise StopFailed(
            f"the stack {name} is in the state {stack['StackStatus']}, expected one of {', '.join(CHANGEABLE)}. Wait "
            "until its deployment has ended, or mend it, and run the command again."
        )
    if parameters[PAUSE] == "off":
        return
    kept = [{"ParameterKey": known, "UsePreviousValue": True} for known in parameters if known != PAUSE]
    cloudformation.update_stack(
        StackName=name,
        UsePreviousTemplate=True,
        Parameters=[*kept, {"ParameterKey": PAUSE, "ParameterValue": "off"}],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    waiting.until(lambda: _not_yet_updated(cloudformation, name))
    found = _described(cloudformation, name)
    if _parameters(found)[PAUSE] != "off":
        raise StopFailed(
            f"the update of the stack {name} that pauses it ended in {found['StackStatus']}. Its events say why: aws "
            f"cloudformation describe-stack-events --stack-name {name}"
        )


def _parameters(stack: Mapping[str, Any]) -> dict[str, str]:
    return {one["ParameterKey"]: one["ParameterValue"] for one in stack.get("Parameters", ())}


def _not_yet_updated(cloudformation: Any, stack: str) -> str:
    status = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    return f"pausing the stack ({status})" if status.endswith("_IN_PROGRESS") else ""


def _active_runs(emr: Any, application: str) -> list[str]:
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=application, states=list(ACTIVE))
    return [run["id"] for page in pages for run in page["jobRuns"]]


def _runs_left(emr: Any, application: str) -> str:
    runs = _active_runs(emr, application)
    return f"waiting for active runs: {', '.join(runs)}" if runs else ""


def _state(emr: Any, application: str) -> str:
    return str(emr.get_application(applicationId=application)["application"]["state"])


def _not_yet_stopped(emr: Any, application: str) -> str:
    state = _state(emr, application)
    return "" if state in STOPPED else f"stopping the application ({state})"
