"""Pauses a stack, waits for its runs and stops its application, through the services' APIs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blizzard.errors import ConfigError, PermanentError
from functions.dispatcher.emr import ACTIVE
from infra.deployed.calls import Clients, translating
from infra.deployed.stack import DeployedStack, describe_stack

STOPPED = ("STOPPED", "CREATED")
"""States of an application that take a change; CREATED: it has never been started."""
CHANGEABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE")
"""States of a stack in which it can be updated."""
PAUSE = "Dispatching"
POLL_SECS = 5.0


class StopFailed(PermanentError):
    """The application is not stopped. The text says why, and what to do."""


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

    Raises ConfigError for a stack that does not exist or has no application of its own, and for a call that these
    credentials may not make; StopFailed or CallRefused for all else.
    """
    found = describe_stack(clients, stack)
    application = _application(found)
    cloudformation, emr = clients.client("cloudformation"), clients.client("emr-serverless")
    with translating("cloudformation:UpdateStack", f"the stack {stack}"):
        _pause(cloudformation, clients, found, waiting)
    with translating("emr-serverless:StopApplication", f"the application {application}"):
        _stop_application(emr, application, waiting, cancel=cancel)
    return application


def _stop_application(emr: Any, application: str, waiting: Waiting, *, cancel: bool) -> None:
    if cancel:
        for run_id in _active_runs(emr, application):
            emr.cancel_job_run(applicationId=application, jobRunId=run_id)
    waiting.until(lambda: _runs_left(emr, application))
    if _state(emr, application) not in STOPPED:
        emr.stop_application(applicationId=application)
        waiting.until(lambda: _not_yet_stopped(emr, application))


def _application(stack: DeployedStack) -> str:
    if PAUSE not in stack.parameters:
        raise ConfigError([f"STACK: expected a stack of Blizzard, found {stack.name!r} without the parameter {PAUSE}"])
    if stack.parameters.get("ApplicationId"):
        expected = "STACK: expected a stack with an application of its own"
        found = f"found {stack.name!r}, which uses another one (ApplicationId)"
        raise ConfigError([f"{expected}, {found}; ask the owner of that to stop it"])
    return stack.outputs["ApplicationId"]


def _pause(cloudformation: Any, clients: Clients, stack: DeployedStack, waiting: Waiting) -> None:
    """No run is started from now on. Only the parameter changes; template and tags stay."""
    if stack.status not in CHANGEABLE:
        raise StopFailed(
            f"the stack {stack.name} is in the state {stack.status}, expected one of {', '.join(CHANGEABLE)}. Wait "
            "until its deployment has ended, or mend it, and run the command again."
        )
    if stack.parameters[PAUSE] == "off":
        return
    kept = [{"ParameterKey": known, "UsePreviousValue": True} for known in stack.parameters if known != PAUSE]
    cloudformation.update_stack(
        StackName=stack.name,
        UsePreviousTemplate=True,
        Parameters=[*kept, {"ParameterKey": PAUSE, "ParameterValue": "off"}],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    waiting.until(lambda: _not_yet_updated(clients, stack.name))
    found = describe_stack(clients, stack.name)
    if found.parameters[PAUSE] != "off":
        raise StopFailed(
            f"the update of the stack {stack.name} that pauses it ended in {found.status}. Its events say why: aws "
            f"cloudformation describe-stack-events --stack-name {stack.name}"
        )


def _not_yet_updated(clients: Clients, stack: str) -> str:
    status = describe_stack(clients, stack).status
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
