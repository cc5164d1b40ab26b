"""Errors of boto3, translated to Blizzard's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blizzard.errors import (
    AccessDenied,
    BucketMissing,
    CredentialsRefused,
    KeyUnusable,
    NoSuchBytes,
    NotFound,
    StorageBroken,
    StorageError,
)
from blizzard.log import first_line
from blizzard.storage.retry import TransientError

_TRANSIENT_CODES = {
    "BadDigest",
    "IncompleteBody",
    "InternalError",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
}
_TRANSIENT_STATUS = {409, 429, 500, 502, 503, 504}
_CREDENTIAL_CODES = {
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_KMS = "KMS."
"""Prefix of the error codes that S3 forwards from KMS. Their status is 400."""
_KMS_TRANSIENT = ("Throttling", "LimitExceeded", "Internal", "Timeout", "Unavailable")
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_ACTIONS = {
    "list": "s3:ListBucket",
    "head": "s3:GetObject",
    "get": "s3:GetObject",
    "put": "s3:PutObject",
    "create": "s3:PutObject",
    "delete": "s3:DeleteObject",
    "abort": "s3:AbortMultipartUpload",
}


class PreconditionFailedError(Exception):
    """S3 responded with 412: the condition of the request is not met. Never leaves this package."""


class UploadGoneError(Exception):
    """S3 does not know the multipart upload, or not any more. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class S3Call:
    """An operation and the URI of its object, for error texts."""

    operation: str
    uri: str

    def __str__(self) -> str:
        return f"{self.operation} {self.uri}"


@contextmanager
def translate_s3_errors(call: S3Call) -> Iterator[None]:
    """Has to enclose every use of boto3. Raises TransientError, PreconditionFailedError, UploadGoneError or a
    StorageError instead of boto3's errors."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        details, metadata = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
        raise error_from_response(call, details, int(metadata.get("HTTPStatusCode", 0))) from error
    except (ResponseParserError, HTTPError, OSError) as error:
        raise TransientError(f"{type(error).__name__}: {error}") from error
    except BotoCoreError as error:
        raise _error_without_response(call, error) from error


def _error_without_response(call: S3Call, error: Exception) -> Exception:
    from botocore import exceptions as boto  # type: ignore[import-untyped]

    text = f"{type(error).__name__}: {error}"
    if isinstance(error, boto.ConnectionError):
        return TransientError(text, _unreachable_advice(str(error.kwargs.get("endpoint_url", ""))))
    if isinstance(error, (boto.HTTPClientError, boto.IncompleteReadError)):
        return TransientError(text)
    if isinstance(error, boto.FlexibleChecksumError):
        return TransientError(text)
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)):
        return CredentialsRefused(
            f"{call}: {text}. Expected credentials where boto3 looks for them: AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, a profile, or a role."
        )
    if isinstance(error, boto.ParamValidationError):
        return StorageError(
            f"{call}: {text}. No request was sent, since boto3 refuses this bucket or key. Correct the URI or the "
            "object's name."
        )
    return StorageBroken(
        f"{call}: {text}. No request was sent; correct AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL or the credentials, "
        "whichever it names."
    )


def _unreachable_advice(url: str) -> str:
    endpoint = "/".join(url.split("/")[:3]) or "the endpoint"
    return f"Try again later, or correct {endpoint}, which AWS_ENDPOINT_URL or AWS_REGION chose."


def error_from_response(call: S3Call, details: dict[str, Any], status: int = 0) -> Exception:
    """`details` has S3's Code and Message. The response to a HEAD has no body, so its Code is the status."""
    code, message = str(details.get("Code", status)), first_line(str(details.get("Message", ""))).rstrip(".")
    numbered = f"{status} {code}" if status and code != str(status) else code
    text = f"S3 answered {numbered}: {message}"
    if code in _TRANSIENT_CODES or status in _TRANSIENT_STATUS:
        return TransientError(text)
    if status == 412 or code == "PreconditionFailed":
        return PreconditionFailedError(text)
    if code == "NoSuchBucket":
        return BucketMissing(f"{call}: there is no such bucket. Create it, or correct the URI.")
    if code == "NoSuchUpload":
        return UploadGoneError(text)
    if status == 404 or code in ("NoSuchKey", "NoSuchVersion"):
        return NotFound(f"{call}: there is no such object")
    if code == "InvalidObjectState":
        return StorageError(
            f"{call}: the object is archived ({text}). Restore it first, to a storage class that can be read at once."
        )
    if code.startswith(_KMS):
        return _key_refused(call, text, code)
    if code in _CREDENTIAL_CODES:
        return CredentialsRefused(f"{call}: {text}. Renew the credentials and start again.")
    return _refused(call, text, code, status)


def _refused(call: S3Call, text: str, code: str, status: int) -> StorageError:
    if status == 416 or code == "InvalidRange":
        return NoSuchBytes(f"{call}: {text}. The object is shorter than expected: restore it.")
    if code in _WRONG_REGION or status == 301:
        return StorageBroken(f"{call}: {text}. Set AWS_REGION to the bucket's region, or correct AWS_ENDPOINT_URL.")
    if code == "RequestTimeTooSkewed":
        return StorageBroken(
            f"{call}: {text}. Expected a clock within 15 minutes of S3's. Set the clock of this machine."
        )
    if status in (401, 403) or code == "AccessDenied":
        return _denied(call, text)
    return StorageError(
        f"{call}: {text}. Correct what it names, for example the URI or the object's name, and try again."
    )


def _key_refused(call: S3Call, text: str, code: str) -> Exception:
    if any(word in code for word in _KMS_TRANSIENT):
        return TransientError(text)
    action = "kms:Decrypt" if call.operation in ("get", "head") else "kms:Decrypt and kms:GenerateDataKey"
    return KeyUnusable(
        f"{call}: {text}. Enable the KMS key in this error (or cancel its deletion) and allow {action} on it. If the "
        "key is deleted for good, remove the objects that it encrypts: nothing can read them."
    )


def _denied(call: S3Call, text: str) -> AccessDenied:
    hint = f"Allow {_ACTIONS[call.operation]} on it, or use other credentials."
    if call.operation in ("get", "head"):
        hint += " Without s3:ListBucket, S3 also answers this for an object that does not exist."
    return AccessDenied(f"{call}: {text}. {hint}")
