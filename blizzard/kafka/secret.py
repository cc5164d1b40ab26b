"""A login that a secret of AWS Secrets Manager holds, as those of Amazon MSK do: a username and a password."""

import json
from dataclasses import dataclass, field
from typing import Any

from blizzard.environment import variables
from blizzard.errors import PermanentError, RetryableError

TIMEOUT_SECS = 10
_THROTTLED = frozenset({"ThrottlingException", "InternalServiceError", "RequestTimeout", "ServiceUnavailable"})
_known: dict[str, "SecretLogin"] = {}
"""By the secret, for all sources of this process."""


@dataclass(frozen=True, slots=True)
class SecretLogin:
    username: str
    password: str = field(repr=False)


class UsedSecret:
    """A secret, and the login that was last taken from it. `secret`: None: there is none."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._used: SecretLogin | None = None

    def login(self) -> SecretLogin | None:
        """As this process read it last. Errors as of `login_of`."""
        if self._secret is not None:
            self._used = _known.get(self._secret) or login_of(self._secret)
        return self._used

    def is_changed(self) -> bool:
        """To be asked once the login was refused: whether the secret holds another one by now, which is then known.
        Errors as of `login_of`."""
        return self._secret is not None and self._used is not None and login_of(self._secret) != self._used


def login_of(secret: str) -> SecretLogin:
    """Reads the secret, by its name or ARN, and keeps it for all of this process. Raises RetryableError if Secrets
    Manager does not answer, PermanentError if it refuses or has no such login. No error's text has the value."""
    _known[secret] = found = _login(secret, _value(secret))
    return found


def _value(secret: str) -> str:
    import botocore.session  # type: ignore[import-untyped]
    from botocore import exceptions as boto
    from botocore.config import Config as ClientConfig  # type: ignore[import-untyped]

    retries = {"total_max_attempts": 3, "mode": "standard"}
    config = ClientConfig(connect_timeout=TIMEOUT_SECS, read_timeout=TIMEOUT_SECS, retries=retries)
    try:
        client = botocore.session.Session().create_client("secretsmanager", region_name=_region(secret), config=config)
        value = client.get_secret_value(SecretId=secret).get("SecretString")
    except boto.ClientError as error:
        raise _refusal(secret, error.response) from error
    except (boto.ConnectionError, boto.HTTPClientError, boto.CredentialRetrievalError) as error:
        raise RetryableError(f"{_named(secret)} cannot be read: {type(error).__name__}: {error}") from error
    except boto.BotoCoreError as error:
        raise PermanentError(
            f"{_named(secret)} cannot be read: {type(error).__name__}: {error}. Expected credentials and a region "
            "where boto3 looks for them: AWS_REGION, a role, a profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from error
    return value if isinstance(value, str) else ""


def _region(secret: str) -> str | None:
    """None: that of botocore's profile, which does not read AWS_REGION."""
    return secret.split(":")[3] if secret.startswith("arn:") else variables().get("AWS_REGION")


def _refusal(secret: str, response: Any) -> PermanentError | RetryableError:
    details, status = response.get("Error", {}), response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(details.get("Code", status))
    said = f"Secrets Manager answers {code}: {details.get('Message', '')!s:.300}"
    if status >= 500 or code in _THROTTLED:
        return RetryableError(f"{_named(secret)} cannot be read: {said}")
    if code == "ResourceNotFoundException":
        return PermanentError(f"{_named(secret)} does not exist: {said}. Correct `secret` of the source, or create it.")
    return PermanentError(
        f"{_named(secret)} cannot be read: {said}. The job needs secretsmanager:GetSecretValue for it, and kms:Decrypt "
        "for its key if that is one of your own."
    )


def _login(secret: str, value: str) -> SecretLogin:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PermanentError(f'{_named(secret)} holds no JSON object; expected {{"username": …, "password": …}}')
    for name in ("username", "password"):
        if not isinstance(found.get(name), str) or not found[name]:
            raise PermanentError(
                f'{_named(secret)} has no text under "{name}"; expected {{"username": …, "password": …}}'
            )
    return SecretLogin(found["username"], found["password"])


def _named(secret: str) -> str:
    return f"the secret {secret}"
