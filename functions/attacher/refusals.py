"""What S3's refusals mean, and what to do about them."""

from typing import Any

from blizzard.errors import BlizzardError, BucketMissing, PermanentError, RetryableError
from blizzard.log import first_line

MISSING = ("NoSuchBucket", "404")
OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
DENIED = ("AccessDenied", "AllAccessDisabled", "403")
BUSY = ("OperationAborted", "SlowDown")


class NotAttached(PermanentError):
    """S3 refuses the notification, or it did not stay. The text says what to do."""


class NotYet(RetryableError):
    """May succeed after a pause: roles, policies and configurations take some seconds to be in effect everywhere."""


def refusal(error: Any, bucket: str, account: str, overlaps: list[str]) -> BlizzardError:
    """For botocore's ClientError. `overlaps`: the entries of others that overlap with the stack's own."""
    described = error.response.get("Error", {})
    code, message = described.get("Code", ""), first_line(str(described.get("Message", "")))
    if code in MISSING:
        return BucketMissing(f"{bucket}: there is no such bucket. Create it, or correct the parameter")
    if code in OTHER_REGION or "region is not valid" in message:
        return NotAttached(
            f"{bucket}: the bucket is in another region than the stack, and S3 notifies only queues of its own region "
            f"({message}). Deploy the stack in the bucket's region"
        )
    if code in DENIED:
        return NotYet(_denied(bucket, account, message))
    if "validate the following destination" in message:
        return NotYet(_unreachable(bucket, described))
    if overlaps:
        return NotAttached(
            f"{bucket}: the notification {', '.join(overlaps)} announces some of the same objects, which S3 does not "
            f"allow ({message}). Narrow one of the prefixes, or use the mode eventbridge or sns"
        )
    kind = NotYet if code in BUSY or _status(error) >= 500 else NotAttached
    return kind(f"{bucket}: S3 refused the notification ({code}: {message}). Correct the cause, then deploy again")


def _denied(bucket: str, account: str, message: str) -> str:
    return (
        f"{bucket}: access denied ({message}). Expected a bucket of the account {account} whose policy does not deny "
        "s3:GetBucketNotification and s3:PutBucketNotification to the attacher's role. Change that, or use the mode "
        "eventbridge or sns"
    )


def _unreachable(bucket: str, described: dict[str, Any]) -> str:
    named = [str(value) for name, value in sorted(described.items()) if name.startswith("ArgumentName")]
    return (
        f"{bucket}: S3 cannot reach a destination of its notifications ({', '.join(named) or 'none is named'}). "
        "If it is not this stack's queue, its owner must repair or remove that notification. Otherwise use the mode "
        "eventbridge"
    )


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
