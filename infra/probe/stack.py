"""What a deployed stack starts its runs with: as its dispatcher has it."""

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from blizzard.errors import ConfigError
from functions.dispatcher.job_request import JobSettings
from infra.probe.calls import Clients, translating

OUTPUT = "DispatcherFunctionName"


def read_settings(clients: Clients, stack: str) -> JobSettings:
    """Raises ConfigError if there is no such stack, or it is not one of Blizzard's."""
    function = _dispatcher_of(clients, stack)
    client = clients.client("lambda")
    with translating("lambda:GetFunctionConfiguration", f"the function {function}"):
        found = client.get_function_configuration(FunctionName=function)
    deployed = found.get("Environment", {}).get("Variables", {})
    try:
        return JobSettings.from_environment({**deployed, "AWS_REGION": client.meta.region_name})
    except ConfigError as error:
        raise ConfigError([f"the function {function} of the stack {stack}: {one}" for one in error.problems]) from error


def _dispatcher_of(clients: Clients, stack: str) -> str:
    with translating("cloudformation:DescribeStacks", f"the stack {stack}"):
        client = clients.client("cloudformation")
        try:
            (found,) = client.describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            if "does not exist" not in str(error.response.get("Error", {}).get("Message", "")):
                raise
            raise _unknown(stack, client.meta.region_name) from error
    outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}
    if OUTPUT not in outputs:
        raise _not_blizzards(stack, found["StackStatus"])
    return str(outputs[OUTPUT])


def _unknown(stack: str, region: str) -> ConfigError:
    text = (
        f"STACK: there is no stack {stack!r} in {region}, in the account of these credentials. Expected the name that "
        "`sam deploy` asked for; `aws cloudformation list-stacks` lists them. Correct STACK, AWS_REGION or AWS_PROFILE."
    )
    return ConfigError([text])


def _not_blizzards(stack: str, status: str) -> ConfigError:
    text = (
        f"STACK: expected a stack that `sam deploy` has made from template.yaml, with an output {OUTPUT}; found none "
        f"in {stack!r}, which is in the state {status}. Deploy it, or name another stack."
    )
    return ConfigError([text])
