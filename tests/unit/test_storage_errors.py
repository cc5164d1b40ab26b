"""What storage and the operating system refuse, in Blizzard's words: whose trouble it is, and what to do about it."""

import errno
import os
from pathlib import Path

import pytest
from botocore.exceptions import NoRegionError, ParamValidationError, ProfileNotFound  # type: ignore[import-untyped]

from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    CredentialsRefused,
    KeyUnusable,
    NoSuchBytes,
    StorageBroken,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from blizzard.storage.local import LocalStore
from blizzard.storage.retry import TransientError
from blizzard.storage.s3_errors import S3Call, error_from_response, translate_s3_errors

GET, PUT = S3Call("get", "s3://lake/a"), S3Call("put", "s3://lake/a")


@pytest.mark.parametrize(
    "code",
    [
        "KMS.DisabledException",
        "KMS.KMSInvalidStateException",
        "KMS.NotFoundException",
        "KMS.InvalidKeyUsageException",
        "KMS.SomethingNewException",
    ],
)
@pytest.mark.parametrize(("call", "allowed"), [(GET, "allow kms:Decrypt on it"), (PUT, "kms:GenerateDataKey on it")])
def test_an_unusable_kms_key_is_not_an_error_of_the_object(code: str, call: S3Call, allowed: str) -> None:
    error = error_from_response(call, {"Code": code, "Message": "arn:aws:kms:eu-west-1:1:key/k is disabled."}, 400)
    assert isinstance(error, KeyUnusable)
    assert str(error).startswith(f"{call}: S3 answered 400 {code}: arn:aws:kms:eu-west-1:1:key/k is disabled.")
    assert "Enable the KMS key" in str(error)
    assert allowed in str(error)


@pytest.mark.parametrize(
    "code",
    [
        "KMS.ThrottlingException",
        "KMS.KMSInternalException",
        "KMS.DependencyTimeoutException",
        "KMS.KeyUnavailableException",
        "KMS.LimitExceededException",
        "ThrottlingException",
    ],
)
def test_a_throttled_kms_request_is_retried(code: str) -> None:
    assert isinstance(error_from_response(GET, {"Code": code, "Message": "Rate exceeded"}, 400), TransientError)


@pytest.mark.parametrize(
    ("code", "status", "kind", "advice"),
    [
        ("PermanentRedirect", 301, StorageBroken, "Set AWS_REGION"),
        ("301", 301, StorageBroken, "Set AWS_REGION"),
        ("AuthorizationHeaderMalformed", 400, StorageBroken, "Set AWS_REGION"),
        ("RequestTimeTooSkewed", 403, StorageBroken, "Set the clock"),
        ("ExpiredToken", 400, CredentialsRefused, "Renew the credentials"),
        ("AccessDenied", 403, AccessDenied, "Allow s3:GetObject"),
        ("InvalidObjectState", 403, StorageError, "Restore it first"),
        ("InvalidRange", 416, NoSuchBytes, "restore it"),
        ("KeyTooLongError", 400, StorageError, "Correct what it names"),
    ],
)
def test_each_refusal_has_its_error_type_and_says_what_to_do(code: str, status: int, kind: type, advice: str) -> None:
    error = error_from_response(GET, {"Code": code, "Message": "as S3 puts it"}, status)
    assert type(error) is kind
    assert advice in str(error)


@pytest.mark.parametrize("error", [NoRegionError(), ProfileNotFound(profile="nobodys")])
def test_a_wrong_setup_is_not_an_error_of_the_object(error: Exception) -> None:
    with (
        pytest.raises(StorageBroken, match=r"^get s3://lake/a: .*correct AWS_REGION, AWS_PROFILE"),
        translate_s3_errors(GET),
    ):
        raise error


def test_a_request_that_boto_refuses_says_what_is_wrong() -> None:
    with pytest.raises(StorageError, match="Invalid length for parameter Key") as raised, translate_s3_errors(GET):
        raise ParamValidationError(report="Invalid length for parameter Key")
    assert type(raised.value) is StorageError


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="the file that no disk can read is Linux's")
def test_a_failing_disk_is_not_an_error_of_the_file() -> None:
    with (
        LocalStore(f"/proc/{os.getpid()}").open("mem") as memory,
        pytest.raises(StorageBroken, match=r"mem: Input/output error\. The disk or its mount fails"),
    ):
        memory.read(10)


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StorageFull, "Make room there"),
        (errno.EDQUOT, StorageFull, "raise the quota"),
        (errno.EIO, StorageBroken, "repair it"),
        (errno.ENOTCONN, StorageBroken, "its mount fails"),
        (errno.EROFS, AccessDenied, "mount it for writing"),
        (errno.ESTALE, StorageUnavailable, "Try again later"),
        (errno.ENXIO, StorageError, "correct what is there"),
    ],
)
def test_each_disk_error_has_its_error_type_and_says_what_to_do(
    number: int, kind: type[BlizzardError], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(kind, match=advice) as raised:
        LocalStore(tmp_path).put("a", b"some")
    assert type(raised.value) is kind
    assert f"put file://{tmp_path}/a: {os.strerror(number)}. " in str(raised.value)
