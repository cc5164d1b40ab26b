"""CloudFormation's requests to a custom resource, and the answers."""

import json
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from blizzard.errors import ConfigError

Kind = Literal["Create", "Update", "Delete"]
KINDS = ("Create", "Update", "Delete")
MAX_ANSWER_BYTES = 4096
"""CloudFormation's limit."""
MAX_REASON_BYTES = 2500
ANSWER_TIMEOUT_SECS = 5.0
ANSWER_ATTEMPTS = 3
PAUSE_SECS = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """`physical_id`: what an earlier answer named; empty for Create."""

    kind: Kind
    request_id: str
    response_url: str
    stack_id: str
    logical_id: str
    physical_id: str
    properties: Mapping[str, Any]

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> "Request":
        """Raises ConfigError unless this is a request of CloudFormation, which can be answered."""
        needed = ("RequestType", "RequestId", "ResponseURL", "StackId", "LogicalResourceId")
        missing = [name for name in needed if not isinstance(event.get(name), str) or not event[name]]
        if missing or event["RequestType"] not in KINDS:
            without = ", ".join(missing) or "a known RequestType"
            expected = "expected a request of CloudFormation to a custom resource"
            raise ConfigError([f"the attacher's event: {expected}, found none of {without}; do not invoke it by hand"])
        properties = event.get("ResourceProperties")
        return cls(
            kind=cast("Kind", event["RequestType"]),
            request_id=event["RequestId"],
            response_url=event["ResponseURL"],
            stack_id=event["StackId"],
            logical_id=event["LogicalResourceId"],
            physical_id=str(event.get("PhysicalResourceId") or ""),
            properties=properties if isinstance(properties, Mapping) else {},
        )

    @property
    def stack_name(self) -> str:
        """From arn:aws:cloudformation:region:account:stack/name/id."""
        return self.stack_id.split("/")[1] if "/" in self.stack_id else self.stack_id

    @property
    def account(self) -> str:
        parts = self.stack_id.split(":")
        return parts[4] if len(parts) > 4 else ""

    def property(self, name: str) -> str:
        """Raises ConfigError when the template sets none."""
        value = self.properties.get(name)
        if not isinstance(value, str) or not value:
            raise ConfigError([f"{self.logical_id}: expected the property {name}, found {value!r}; set it"])
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """`problem`: why it failed; empty for a success."""

    physical_id: str
    problem: str = ""

    def to_json(self, request: Request) -> str:
        fields = {
            "Status": "FAILED" if self.problem else "SUCCESS",
            "Reason": _shortened(self.problem),
            "PhysicalResourceId": self.physical_id,
            "StackId": request.stack_id,
            "RequestId": request.request_id,
            "LogicalResourceId": request.logical_id,
        }
        return json.dumps(fields)


def _shortened(reason: str) -> str:
    """JSON may write a character as 12 bytes."""
    while len(json.dumps(reason)) > MAX_REASON_BYTES:
        reason = reason[: len(reason) * 9 // 10]
    return reason


def send(request: Request, answer: Answer, sleep: Callable[[float], None]) -> None:
    """Raises OSError when CloudFormation's bucket does not take the answer."""
    body = answer.to_json(request).encode()
    # The signature of the URL covers the content type, which urllib would set for a body.
    put = urllib.request.Request(request.response_url, data=body, headers={"Content-Type": ""}, method="PUT")
    for attempt in range(1, ANSWER_ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(put, timeout=ANSWER_TIMEOUT_SECS):
                return
        except OSError:
            if attempt == ANSWER_ATTEMPTS:
                raise
            sleep(PAUSE_SECS)
