"""S3: unpatched, moto accepts notifications whose filters overlap, which S3 refuses."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import combinations
from typing import Any

from moto.s3.exceptions import S3ClientError
from moto.s3.models import FakeBucket

from infra.local.moto.patches.patching import wrap

KINDS = ("TopicConfiguration", "QueueConfiguration", "CloudFunctionConfiguration")
AMBIGUOUS = (
    "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes are "
    "overlapping for the same event type."
)


def refuse_overlapping_notifications() -> None:
    wrap(FakeBucket, "set_notification_configuration", _refuse_overlaps)


def _refuse_overlaps(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def set_notification_configuration(bucket: FakeBucket, configured: dict[str, Any] | None) -> None:
        for one, other in combinations(_entries(configured or {}), 2):
            if _share_an_event(one["Event"], other["Event"]) and _share_a_key(_rules(one), _rules(other)):
                raise S3ClientError("InvalidArgument", AMBIGUOUS)
        original(bucket, configured)

    return set_notification_configuration


def _entries(configured: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in KINDS:
        yield from configured.get(kind, ())


def _rules(entry: Mapping[str, Any]) -> dict[str, str]:
    rules = (entry.get("Filter") or {}).get("S3Key", {}).get("FilterRule", ())
    return {rule["Name"]: rule["Value"] for rule in rules}


def _share_an_event(mine: list[str], yours: list[str]) -> bool:
    """`s3:ObjectCreated:*` includes `s3:ObjectCreated:Put`."""
    return any(a == b or (a.rpartition(":")[0] == b.rpartition(":")[0] and "*" in a + b) for a in mine for b in yours)


def _share_a_key(mine: Mapping[str, str], yours: Mapping[str, str]) -> bool:
    shorter, longer = sorted((mine.get("prefix", ""), yours.get("prefix", "")), key=len)
    inner, outer = sorted((mine.get("suffix", ""), yours.get("suffix", "")), key=len)
    return longer.startswith(shorter) and outer.endswith(inner)
