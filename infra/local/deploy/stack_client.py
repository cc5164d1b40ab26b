"""Creates, updates and deletes a stack through CloudFormation's API."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError  # type: ignore[import-untyped]

from blizzard.errors import PermanentError
from infra.local.processes.server_process import LocalAws

COMPLETE = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
OPERATOR = "operator"


class StackFailed(PermanentError):
    """The stack was rolled back, or rejected before anything was created."""


class StackClient:
    """A stack by name. `resources`: physical names by logical id."""

    def __init__(self, aws: LocalAws, name: str) -> None:
        self.name = name
        self._cloudformation = aws.client("cloudformation", OPERATOR)

    def create(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        """Raises StackFailed."""
        self._submit(self._cloudformation.create_stack, template, parameters)

    def update(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        """Raises StackFailed; the stack is then as it was before."""
        self._submit(self._cloudformation.update_stack, template, parameters)

    def delete(self) -> None:
        self._cloudformation.delete_stack(StackName=self.name)

    @property
    def resources(self) -> dict[str, str]:
        found = self._cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found if one.get("PhysicalResourceId")}

    @property
    def outputs(self) -> dict[str, str]:
        return {one["OutputKey"]: one["OutputValue"] for one in self._described().get("Outputs", [])}

    @property
    def status(self) -> str:
        return str(self._described()["StackStatus"])

    def _described(self) -> dict[str, Any]:
        found: dict[str, Any] = self._cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
        return found

    def _submit(
        self, create_or_update: Callable[..., object], template: Mapping[str, Any], parameters: Mapping[str, str]
    ) -> None:
        try:
            create_or_update(**self._request(template, parameters))
        except ClientError as error:
            raise StackFailed(
                f"CloudFormation rejected the stack {self.name}: {error.response['Error']['Message']}"
            ) from error
        except ParamValidationError as error:
            raise StackFailed(f"CloudFormation rejected the stack {self.name}: {error}") from error
        self._check_status()

    def _request(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
        return {
            "StackName": self.name,
            "TemplateBody": json.dumps(template),
            "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
            "Capabilities": ["CAPABILITY_IAM"],
        }

    def _check_status(self) -> None:
        status = self.status
        if status in COMPLETE:
            return
        events = self._cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        reasons = [
            event["ResourceStatusReason"]
            for event in events
            if event["ResourceStatus"] in ("ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS")
        ]
        raise StackFailed(
            f"The stack {self.name} ended in {status}: {reasons[0] if reasons else 'no reason was given'}"
        )
