"""Calls to AWS with the operator's credentials, and what their errors mean for a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import boto3  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError, PermanentError
from blizzard.log import first_line

_DENIED = ("AccessDenied", "UnauthorizedOperation", "NotAuthorized")
_CREDENTIALS = ("ExpiredToken", "InvalidClientTokenId", "UnrecognizedClient", "InvalidSignature", "SignatureDoesNot")


class Clients(Protocol):
    def client(self, service: str) -> Any:
        """A boto3 client."""


class CallRefused(PermanentError):
    """AWS refused something that is not a matter of options, credentials or rights. The text says what."""


def operators_clients() -> Clients:
    """Those of the credentials and the region in the environment. Raises ConfigError."""
    environ = variables()
    # boto3 itself knows only the second of them; the other SDKs and the job know both.
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    try:
        session: Clients = boto3.session.Session(region_name=region)
    except BotoCoreError as error:
        raise _no_connection("AWS_PROFILE", error) from error
    return session


@contextmanager
def translating(action: str, resource: str) -> Iterator[None]:
    """Raises ConfigError if the operator lacks `action` on `resource`, or credentials, or a region; CallRefused for any
    other refusal."""
    try:
        yield
    except ClientError as error:
        raise _refused(error, action, resource) from error
    except BotoCoreError as error:
        raise _no_connection(action, error) from error


def _refused(error: ClientError, action: str, resource: str) -> BlizzardError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = first_line(str(error.response.get("Error", {}).get("Message", ""))).rstrip(".")
    if code.startswith(_DENIED):
        return ConfigError([f"{action} on {resource}: {message}. Allow it to the credentials in use, or use others."])
    if code.startswith(_CREDENTIALS):
        return ConfigError([f"{action}: {code}: {message}. Renew the credentials."])
    return CallRefused(f"{action} on {resource}: {code}: {message}. Correct what it names.")


def _no_connection(action: str, error: BotoCoreError) -> ConfigError:
    """No request was sent, or none was answered."""
    text = (
        f"{action}: {type(error).__name__}: {first_line(str(error))}. Expected credentials and a region where "
        "AWS's own tools look for them; set AWS_REGION, AWS_PROFILE or what else it names."
    )
    return ConfigError([text])
