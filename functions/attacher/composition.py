"""The composition root of the attacher function, and what it does for a request."""

from collections.abc import Callable
from typing import Any

from blizzard.errors import BlizzardError
from functions.attacher.bucket import BucketNotifications, Patience
from functions.attacher.custom_resource import Answer, Request
from functions.attacher.notification import Attachment
from functions.runtime import FunctionLog

NEEDED_SECS = 70.0
"""What an attempt and the answer take at most: three calls of S3 with two attempts of seven seconds, and three attempts
to answer."""
S3_ATTEMPTS = 2
NOTHING = "nothing-attached"
"""The physical id of a resource that was never created. CloudFormation deletes it when it rolls back."""


class Attacher:
    """Attaches buckets to the stack's queue, and detaches them. Every request gets an answer."""

    def __init__(self, make_client: Callable[[], Any], log: FunctionLog, sleep: Callable[[float], None]) -> None:
        self._make_client = make_client
        self._log = log
        self._sleep = sleep
        self._s3: Any = None

    def answer(self, request: Request, remaining_secs: Callable[[], float]) -> Answer:
        """Never raises."""
        try:
            done = self._handle(request, Patience(self._sleep, remaining_secs, NEEDED_SECS))
        except BlizzardError as error:
            return self._failed(request, error, str(error))
        except Exception as error:  # noqa: BLE001 - CloudFormation would wait for an answer until its timeout
            return self._failed(request, error, f"{type(error).__name__}: {error}; see the log of the attacher")
        return done

    def _handle(self, request: Request, patience: Patience) -> Answer:
        if request.kind == "Delete":
            bucket, _, entry_id = request.physical_id.partition("/")
            if entry_id:
                self._notifications(bucket, request, patience).detach(entry_id)
                self._log.info("bucket_detached", bucket=bucket, entry=entry_id)
            return Answer(request.physical_id or NOTHING)
        bucket, attachment = request.property("BucketName"), attachment_of(request)
        notifications = self._notifications(bucket, request, patience)
        try:
            notifications.attach(attachment)
        except BlizzardError:
            if notifications.may_have_written and request.physical_id != physical_id(bucket, attachment):
                self._undo(notifications, bucket, attachment)
            raise
        self._log.info("bucket_attached", bucket=bucket, entry=attachment.entry_id, prefix=attachment.prefix)
        return Answer(physical_id(bucket, attachment))

    def _undo(self, notifications: BucketNotifications, bucket: str, attachment: Attachment) -> None:
        """The answer to an attempt that failed does not name this bucket, so CloudFormation would not detach it."""
        try:
            notifications.detach(attachment.entry_id)
        except BlizzardError as error:
            self._log.warning("attach_not_undone", bucket=bucket, entry=attachment.entry_id, error=str(error))

    def _failed(self, request: Request, error: Exception, problem: str) -> Answer:
        self._log.error(
            "attach_failed",
            request=request.kind,
            resource=request.logical_id,
            error=problem,
            error_kind=type(error).__name__,
        )
        # The id of before: another one would tell CloudFormation that the resource was replaced.
        return Answer(request.physical_id or NOTHING, problem or type(error).__name__)

    def _notifications(self, bucket: str, request: Request, patience: Patience) -> BucketNotifications:
        if self._s3 is None:
            self._s3 = self._make_client()
        return BucketNotifications(self._s3, bucket, request.account, patience, self._log.warning)


def attachment_of(request: Request) -> Attachment:
    """The entry's id is the same for each request of a resource, in any bucket."""
    family = f"blizzard-{request.stack_name}-"
    return Attachment(
        entry_id=family + request.logical_id,
        family=family,
        queue_arn=request.property("QueueArn"),
        prefix=str(request.properties.get("Prefix") or ""),
    )


def physical_id(bucket: str, attachment: Attachment) -> str:
    """Another one only for another bucket: CloudFormation then lets the function detach the old one."""
    return f"{bucket}/{attachment.entry_id}"
