"""A stack as CloudFormation describes it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from blizzard.errors import ConfigError
from infra.deployed.calls import Clients, translating

_NAME = re.compile("[A-Za-z][A-Za-z0-9-]{0,127}")


@dataclass(frozen=True, slots=True)
class DeployedStack:
    name: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]


def describe_stack(clients: Clients, name: str) -> DeployedStack:
    """Raises ConfigError if there is none, and for what cannot be a stack's name."""
    if not _NAME.fullmatch(name):
        found = repr(name) if name else "nothing"
        raise ConfigError([f"STACK: expected the name of a stack, such as blizzard, found {found}"])
    with translating("cloudformation:DescribeStacks", f"the stack {name}"):
        client = clients.client("cloudformation")
        try:
            (found,) = client.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" not in str(error.response.get("Error", {}).get("Message", "")):
                raise
            raise _unknown(name, client.meta.region_name) from error
    return _decode(found)


def _decode(found: Mapping[str, Any]) -> DeployedStack:
    return DeployedStack(
        found["StackName"],
        found["StackStatus"],
        {one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", ())},
        {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())},
    )


def _unknown(stack: str, region: str) -> ConfigError:
    text = (
        f"STACK: there is no stack {stack!r} in {region}, in the account of these credentials. Expected the name that "
        "`sam deploy` asked for; `aws cloudformation list-stacks` lists them. Correct STACK, AWS_REGION or AWS_PROFILE."
    )
    return ConfigError([text])
