"""Changes the notification configuration of one bucket: read, change, write, and look whether it stays.

S3 replaces the configuration as a whole, and knows no condition on a write.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.errors import BucketMissing
from blizzard.log import Log, first_line
from functions.attacher.notification import Attachment, Configuration, attached, detached, has_entry, lost, overlapping
from functions.attacher.refusals import NotAttached, NotYet, refusal

PAUSES_SECS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Before each further attempt."""
SETTLE_SECS = 2.0
"""Before the configuration is read again: somebody who had read it before it was changed may be about to write."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`sleep` and `remaining_secs` of the function, and how many of them an attempt must leave."""

    sleep: Callable[[float], None]
    remaining_secs: Callable[[], float]
    needed_secs: float


class BucketNotifications:
    """The notification configuration of a bucket of this account. `log` is for warnings."""

    def __init__(self, s3: Any, bucket: str, account: str, patience: Patience, log: Log) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._account = account
        self._patience = patience
        self._log = log
        self.may_have_written = False

    def attach(self, attachment: Attachment) -> None:
        """Add the entry, or change it. Raises BlizzardError; BucketMissing if there is no such bucket."""
        self._try(lambda: self._attach(attachment))

    def detach(self, entry_id: str) -> None:
        """Take away this entry and nothing else; without bucket or entry, do nothing. Raises BlizzardError."""
        try:
            self._try(lambda: self._detach(entry_id))
        except BucketMissing:
            self._log("bucket_gone", bucket=self._bucket)

    def _try(self, step: Callable[[], None]) -> None:
        problem = "there was no time for an attempt"
        for pause_secs in (0.0, *PAUSES_SECS):
            if self._patience.remaining_secs() - pause_secs < self._patience.needed_secs:
                break
            self._patience.sleep(pause_secs)
            try:
                step()
            except NotYet as error:
                problem = str(error)
                self._log("attach_retried", bucket=self._bucket, error=problem)
            else:
                return
        raise NotAttached(problem)

    def _attach(self, attachment: Attachment) -> None:
        before = self._read()
        wanted = attached(before, attachment)
        if wanted is before:
            return
        # S3 then sends a test message to each destination, and refuses the configuration when it cannot reach one.
        self._write(wanted, overlapping(before, attachment), validate=True)
        after = self._settled(wanted, attachment.entry_id)
        if not has_entry(after, attachment.entry()):
            raise NotYet(
                f"{self._bucket}: the notification {attachment.entry_id} was set, and is not there when the "
                "configuration is read again; perhaps somebody else changes it at the same time. Deploy again"
            )

    def _detach(self, entry_id: str) -> None:
        before = self._read()
        wanted = detached(before, entry_id)
        if wanted is before:
            return
        # A destination of others that is gone by now must not keep the entry alive.
        self._write(wanted, [], validate=False)
        after = self._settled(wanted, entry_id)
        if detached(after, entry_id) is not after:
            raise NotYet(f"{self._bucket}: the notification {entry_id} is still there; take it away by hand")

    def _settled(self, wanted: Configuration, entry_id: str) -> Configuration:
        """Others' entries were written as they had been read. If one is gone now, its owner took it away or changed it;
        setting it again could undo that."""
        self._patience.sleep(SETTLE_SECS)
        after = self._read()
        if changed := [name for name in lost(wanted, after) if name != entry_id]:
            self._log("others_changed", bucket=self._bucket, entries=changed)
        return after

    def _read(self) -> Configuration:
        place = {"Bucket": self._bucket, "ExpectedBucketOwner": self._account}
        try:
            found: dict[str, Any] = self._s3.get_bucket_notification_configuration(**place)
        except ClientError as error:
            raise refusal(error, self._bucket, self._account, []) from error
        except BotoCoreError as error:
            raise self._unanswered(error) from error
        return {name: value for name, value in found.items() if name != "ResponseMetadata"}

    def _write(self, configuration: Configuration, overlaps: list[str], *, validate: bool) -> None:
        try:
            self._s3.put_bucket_notification_configuration(
                Bucket=self._bucket,
                NotificationConfiguration=configuration,
                ExpectedBucketOwner=self._account,
                SkipDestinationValidation=not validate,
            )
        except ClientError as error:
            raise refusal(error, self._bucket, self._account, overlaps) from error
        except BotoCoreError as error:
            self.may_have_written = True
            raise self._unanswered(error) from error
        self.may_have_written = True

    def _unanswered(self, error: Exception) -> NotYet:
        reason = f"{type(error).__name__}: {first_line(str(error))}"
        return NotYet(f"{self._bucket}: no answer of S3 ({reason}). Check the function's network, then deploy again")
