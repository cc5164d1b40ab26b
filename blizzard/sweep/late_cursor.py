"""Where a late sweep that ran out of time stopped, and whether the next one may resume there."""

import hashlib
from dataclasses import dataclass
from typing import Any

from blizzard.state.watermark import SourceProgress
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class RequiredSegments:
    """The segments from `relies_on` through `through` (both inclusive; empty if `through` is below `relies_on`): those
    that a sweep counted as already appended, and those that it appended. `chain` as in manifest.segments.Position."""

    relies_on: int
    through: int
    chain: str | None


@dataclass(frozen=True, slots=True)
class UnbrokenSegments:
    """The segments from `since` through `through` (both inclusive), consumed or not, without a gap."""

    since: int
    through: int
    chain: str | None

    def covers(self, required: RequiredSegments) -> bool:
        """Whether no required segment was lost: each one was consumed or can still be read."""
        if required.through < required.relies_on:
            return True
        return self.since <= required.relies_on and self.through >= required.through and self.chain == required.chain


@dataclass(frozen=True, slots=True)
class LateSweepScope:
    """What all parts of one late sweep have in common. A part resumes only while this is unchanged.

    `started_ts`: start of the first part. Files modified later are left to the next late sweep, wherever they are.
    `since_ts`: only files modified at or after this time count (None: all files). `listing`: fingerprint of what is
    listed (see `listing_fingerprint`). `closed_through`: what the latest part skipped as closed.
    """

    started_ts: float
    since_ts: float | None
    listing: str
    closed_through: str | None

    def can_resume(self, now: "LateSweepScope", progress: SourceProgress) -> bool:
        """Whether another part may follow. `now` is the scope that a new late sweep would have.

        False if a newer late sweep is complete already. Also False if the state went back to an older one: this sweep
        then does not look back far enough, or has skipped partitions that are open again.
        """
        overtaken = progress.late_swept_ts is not None and progress.late_swept_ts >= self.started_ts
        far_enough_back = self.since_ts is None or (now.since_ts is not None and now.since_ts >= self.since_ts)
        reopened = (now.closed_through or "") < (self.closed_through or "")
        in_order = self.started_ts <= now.started_ts
        return in_order and far_enough_back and not overtaken and not reopened and self.listing == now.listing


@dataclass(frozen=True, slots=True)
class ListingPosition:
    """Where a listing stopped. All partitions before `partition` are listed, in the order of `open_partitions`, and the
    files of `partition` up to and including `after` (None: none of them)."""

    partition: str = ""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class LateCursor:
    """Where the next part of a late sweep resumes. If a required segment was lost since, the sweep starts over."""

    position: ListingPosition
    scope: LateSweepScope
    required: RequiredSegments


def listing_fingerprint(source: ObjectStore, definition: str) -> str:
    """Changes with the source's URI and with its pattern or template (`definition`). Another listing has other files at
    the same position."""
    return hashlib.sha256(f"{source.uri}\n{definition}".encode()).hexdigest()[:16]


def encode_cursor(cursor: LateCursor) -> dict[str, Any]:
    """The JSON object that is stored in the sweep report."""
    position, scope, required = cursor.position, cursor.scope, cursor.required
    return {
        "place": {"partition": position.partition, "after": position.after},
        "epoch": {
            "started_ts": scope.started_ts,
            "since_ts": scope.since_ts,
            "listing": scope.listing,
            "closed_through": scope.closed_through,
        },
        "ground": {"relies_on": required.relies_on, "through": required.through, "chain": required.chain},
    }


def decode_cursor(document: dict[str, Any]) -> LateCursor:
    """Raises one of `json_fields.MALFORMED`."""
    position, scope, required = (json_fields.mapping(document[name]) for name in ("place", "epoch", "ground"))
    return LateCursor(
        decode_position(position),
        LateSweepScope(
            json_fields.number(scope["started_ts"]),
            json_fields.optional_number(scope["since_ts"]),
            json_fields.text(scope["listing"]),
            json_fields.optional_text(scope["closed_through"]),
        ),
        RequiredSegments(
            json_fields.natural(required["relies_on"]),
            json_fields.integer(required["through"]),
            json_fields.optional_text(required["chain"]),
        ),
    )


def decode_position(document: dict[str, Any]) -> ListingPosition:
    """Raises one of `json_fields.MALFORMED`."""
    return ListingPosition(json_fields.text(document["partition"]), json_fields.optional_text(document["after"]))
