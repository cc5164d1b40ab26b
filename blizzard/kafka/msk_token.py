"""Tokens for Amazon MSK: signed by the credentials of AWS that this process has, each for a quarter of an hour."""

import re
from typing import Any

from blizzard.errors import PermanentError, RetryableError

_CONFIG = re.compile(r"region=([a-z0-9-]+)\Z")
Token = tuple[str, float]
"""With the time until which it is good (Unix seconds)."""
_renewing: list[Any] = []
"""Credentials of this process that renew themselves, so that not each client asks a role for some."""


def config_text(region: str) -> str:
    """For librdkafka's `sasl.oauthbearer.config`, which a client hands to what makes its tokens."""
    return f"region={region}"


def new_token(config: str) -> Token:
    """`config`: of `config_text`. Raises RetryableError if who gives the credentials does not answer, PermanentError if
    there are none."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-untyped]
    except ImportError as error:
        raise PermanentError(
            "AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python: install it with "
            "`pip install blizzard[kafka]`"
        ) from error
    match = _CONFIG.match(config)
    if match is None:
        raise PermanentError(f"found {config!r:.60}, expected region=…; the job and its tasks are of two versions")
    credentials = _credentials()
    token, until_ms = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(match[1], _given(credentials))
    return str(token), min(until_ms / 1000, _good_until_ts(credentials))


def _credentials() -> Any:
    """As botocore finds them, renewed if they would soon expire. Others than those of a role are read each time."""
    import botocore.session  # type: ignore[import-untyped]
    from botocore import exceptions as boto

    silent = (boto.ConnectionError, boto.HTTPClientError, boto.CredentialRetrievalError, boto.MetadataRetrievalError)
    try:
        found = _renewing[0] if _renewing else botocore.session.Session().get_credentials()
        if found is not None:
            found.get_frozen_credentials()
    except silent as error:
        raise RetryableError(_no_credentials(f"{type(error).__name__}: {error}".strip())) from error
    except (boto.BotoCoreError, boto.ClientError) as error:
        raise PermanentError(_no_credentials(f"{type(error).__name__}: {error}".strip())) from error
    if found is None:
        raise PermanentError(_no_credentials("there are no credentials of AWS"))
    if _good_until_ts(found) < float("inf"):
        _renewing[:] = [found]
    return found


def _no_credentials(reason: str) -> str:
    return (
        f"no token for Amazon MSK: {reason}. Expected credentials where boto3 looks for them, wherever tasks run: a "
        "role, a profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
    )


def _given(credentials: Any) -> Any:
    """As the signer takes credentials."""
    from botocore.credentials import CredentialProvider  # type: ignore[import-untyped]

    class Given(CredentialProvider):  # type: ignore[misc]
        def load(self) -> Any:
            return credentials.get_frozen_credentials()

    return Given()


def _good_until_ts(credentials: Any) -> float:
    """A token ends with the credentials that signed it, which botocore renews in time, if they are of a role."""
    until = getattr(credentials, "_expiry_time", None)
    return float("inf") if until is None else float(until.timestamp())
