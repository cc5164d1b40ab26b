"""What a deployed stack starts its runs with: as its dispatcher has it."""

from blizzard.errors import ConfigError
from functions.dispatcher.job_request import JobSettings
from infra.deployed.calls import Clients, translating
from infra.deployed.stack import describe_stack

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
    found = describe_stack(clients, stack)
    if OUTPUT not in found.outputs:
        raise _not_blizzards(stack, found.status)
    return found.outputs[OUTPUT]


def _not_blizzards(stack: str, status: str) -> ConfigError:
    text = (
        f"STACK: expected a stack that `sam deploy` has made from template.yaml, with an output {OUTPUT}; found none "
        f"in {stack!r}, which is in the state {status}. Deploy it, or name another stack."
    )
    return ConfigError([text])
