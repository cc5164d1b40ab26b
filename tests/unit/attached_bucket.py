"""A fake of S3's notification configurations, with what goes wrong, and time that passes only when somebody sleeps."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from functions.attacher.bucket import BucketNotifications, Patience
from functions.attacher.notification import Attachment

ACCOUNT = "123456789012"
BUCKET = "their-landing"
QUEUE = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:prod-events"
OWN = Attachment("blizzard-prod-AttachedLanding", "blizzard-prod-", QUEUE, "raw/")
THEIRS: dict[str, Any] = {
    "EventBridgeConfiguration": {},
    "TopicConfigurations": [
        {"Id": "theirs", "TopicArn": f"arn:aws:sns:eu-west-1:{ACCOUNT}:x", "Events": ["s3:ObjectRemoved:*"]}
    ],
}


def refused(code: str, message: str = "", status: int = 400, **more: str) -> ClientError:
    response = {
        "Error": {"Code": code, "Message": message, **more},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "PutBucketNotificationConfiguration")


@dataclass
class FakeS3:
    """One bucket. `answers`: errors of the next calls, None for none; `after_put`: what others do then."""

    configuration: dict[str, Any] = field(default_factory=lambda: deepcopy(THEIRS))
    gets: list[Exception | None] = field(default_factory=list)
    puts: list[Exception | None] = field(default_factory=list)
    after_put: list[Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def get_bucket_notification_configuration(self, **request: Any) -> dict[str, Any]:
        self._answer("get", request, self.gets)
        return {"ResponseMetadata": {}, **deepcopy(self.configuration)}

    def put_bucket_notification_configuration(self, **request: Any) -> None:
        self._answer("put", request, self.puts)
        self.configuration = deepcopy(dict(request["NotificationConfiguration"]))
        if self.after_put:
            self.configuration = self.after_put.pop(0)(self.configuration)

    def _answer(self, kind: str, request: Mapping[str, Any], answers: list[Exception | None]) -> None:
        assert (request["Bucket"], request["ExpectedBucketOwner"]) == (BUCKET, ACCOUNT)
        self.calls.append((kind, dict(request)))
        if answers and (error := answers.pop(0)):
            raise error

    @property
    def written(self) -> list[dict[str, Any]]:
        return [request for kind, request in self.calls if kind == "put"]


@dataclass
class Function:
    """A function that has `remaining_secs` left, and what it logged."""

    s3: FakeS3 = field(default_factory=FakeS3)
    remaining_secs: float = 180.0
    slept: list[float] = field(default_factory=list)
    logged: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def bucket(self) -> BucketNotifications:
        patience = Patience(self.sleep, lambda: self.remaining_secs, 70.0)
        return BucketNotifications(self.s3, BUCKET, ACCOUNT, patience, self.log)

    def sleep(self, secs: float) -> None:
        self.remaining_secs -= secs
        self.slept.append(secs)

    def log(self, event: str, /, **fields: Any) -> None:
        self.logged.append((event, fields))
