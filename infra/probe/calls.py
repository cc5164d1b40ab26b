"""Calls to AWS with the operator's credentials, and what their errors mean for a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.errors import ConfigError, PermanentError
from blizzard.log import first_line

_DENIED = ("AccessDenied", "UnauthorizedOperation", "NotAuthorized")
_CREDENTIALS = ("ExpiredToken", "InvalidClientTokenId", "UnrecognizedClient", "InvalidSignature", "SignatureDoesNot")


class Clients(Protocol):
    def client(self, service: str) -> Any:
        """A boto3 client."""


class ProbeFailed(PermanentError):
    """AWS refused something that is not a matter of options, credentials or rights. The text says what."""


@contextmanager
def translating(action: str, resource: str) -> Iterator[None]:
    """Raises ConfigError if the operator lacks `action` on `resource`, or credentials, or a region; ProbeFailed for any
    other refusal."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        message = first_line(str(error.response.get("Error", {}).get("Message", ""))).rstrip(".")
        if code.startswith(_DENIED):
            raise ConfigError(
                [f"{action} on {resource}: {message}. Allow it to the credentials in use, or use others."]
            ) from error
        if code.startswith(_CREDENTIALS):
            raise ConfigError([f"{action}: {code}: {message}. Renew the credentials."]) from error
        raise ProbeFailed(f"{action} on {resource}: {code}: {message}. Correct what it names.") from error
    except BotoCoreError as error:
        raise no_connection(action, error) from error


def no_connection(action: str, error: BotoCoreError) -> ConfigError:
    """No request was sent, or none was answered."""
    text = (
        f"{action}: {type(error).__name__}: {first_line(str(error))}. Expected credentials and a region where "
        "AWS's own tools look for them; set AWS_REGION, AWS_PROFILE or what else it names."
    )
    return ConfigError([text])
