"""Where a late sweep stopped that ran out of time, and whether another one may go on from there."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from blizzard.state.watermark import SourceProgress, partition_of, prefix_of
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Ground:
    """The segments that a sweep rests on, from `relies_on` through `through`: what it counted as appended, and what it
    appended itself. None, if `through` is below `relies_on`. They are part of the run `chain` (see `Position`)."""

    relies_on: int
    through: int
    chain: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """The unbroken run of segments, consumed or not, that ends at `through`; `since` is its first."""

    since: int
    through: int
    chain: str | None

    def holds(self, ground: Ground) -> bool:
        """Whether none of these segments was lost: each was consumed or can be read now."""
        if ground.through < ground.relies_on:
            return True
        return self.since <= ground.relies_on and self.through >= ground.through and self.chain == ground.chain


@dataclass(frozen=True, slots=True)
class Epoch:
    """What all parts of one late sweep have in common, and must find unchanged.

    `started_ts` is when the first part began; what was modified later, wherever it lies, is for the next late sweep.
    `since_ts` is where it looks back to (None: no limit), `listing` which files it is about (see `listing_of`), and
    `closed_through` what its last part left out as closed.
    """

    started_ts: float
    since_ts: float | None
    listing: str
    closed_through: str | None

    def goes_on(self, now: "Epoch", progress: SourceProgress) -> bool:
        """Whether a part may follow that would be of the epoch `now`, if it were the first.

        Not if a later late sweep is complete already; nor if the state went back, so that this one does not look back
        far enough or left out what is open again.
        """
        overtaken = progress.late_swept_ts is not None and progress.late_swept_ts >= self.started_ts
        deep_enough = self.since_ts is None or (now.since_ts is not None and now.since_ts >= self.since_ts)
        reopened = (now.closed_through or "") < (self.closed_through or "")
        in_order = self.started_ts <= now.started_ts
        return in_order and deep_enough and not overtaken and not reopened and self.listing == now.listing


@dataclass(frozen=True, slots=True)
class Place:
    """In the order of a walk: everything before `partition` was listed, and in it the files through `after`."""

    partition: str = ""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class LateCursor:
    """Where the next part goes on, of what sweep, and which segments must not have been lost until then."""

    place: Place
    epoch: Epoch
    ground: Ground


def listing_of(source: ObjectStore, rules: str) -> str:
    """Another address, pattern or template makes other files out of the same place in a walk."""
    return hashlib.sha256(f"{source.uri}\n{rules}".encode()).hexdigest()[:16]


def decode_cursor(document: dict[str, Any]) -> LateCursor:
    """Raises one of `json_fields.MALFORMED`."""
    place, epoch, ground = (json_fields.mapping(document[name]) for name in ("place", "epoch", "ground"))
    return LateCursor(
        Place(json_fields.text(place["partition"]), json_fields.optional_text(place["after"])),
        Epoch(
            json_fields.number(epoch["started_ts"]),
            json_fields.optional_number(epoch["since_ts"]),
            json_fields.text(epoch["listing"]),
            json_fields.optional_text(epoch["closed_through"]),
        ),
        Ground(
            json_fields.natural(ground["relies_on"]),
            json_fields.integer(ground["through"]),
            json_fields.optional_text(ground["chain"]),
        ),
    )


def open_partitions(source: ObjectStore, progress: SourceProgress, start: str = "") -> Iterator[str]:
    """Every folder that is not closed, from partition `start` on: each before those below it, which come in key order.

    They are found by listing folders, not files. `start` comes first, whether it is still there or not.
    """
    return _walk(source, progress, "", prefix_of(start))


def _walk(source: ObjectStore, progress: SourceProgress, prefix: str, start: str) -> Iterator[str]:
    partition = partition_of(prefix)
    if progress.is_closed(partition):
        return
    behind = ""
    if len(prefix) < len(start):
        behind = start[: start.index("/", len(prefix)) + 1]
        yield from _walk(source, progress, behind, start)
    else:
        yield partition
    for child in source.list_folders(prefix, start_after=behind):
        yield from _walk(source, progress, child, "")
