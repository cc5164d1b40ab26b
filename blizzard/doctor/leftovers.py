"""Checks for what attempts that lost, or were killed, left behind. It costs space and changes no result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from blizzard.doctor.check import Check, Finding, ok, skipped, warning
from blizzard.doctor.source_state import SourceState
from blizzard.doctor.state import DAY_SECS, age
from blizzard.doctor.storage import place_of
from blizzard.errors import BucketMissing
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.log import first_line
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.s3_connection import S3Settings, connection

CHECKED_SEQUENCES = 1000
MAX_LOSING_RECEIPTS = 100
"""Lost races leave some."""
STAGED_SECS = 2 * DAY_SECS
"""The next run removes what is older than a day."""
MAX_PAGES = 10
UPLOAD_SECS = 8 * DAY_SECS
"""The stack's lifecycle rule aborts uploads after 7 days."""


@dataclass(frozen=True, slots=True)
class UploadsOfTable:
    uri: str
    settings: S3Settings
    clock: Callable[[], float]


def _receipts(state: SourceState) -> Finding:
    last = state.committed.sequence
    wanted = SequenceRange(max(0, last - CHECKED_SEQUENCES + 1), last)
    if last < 0:
        return skipped("nothing is committed by this version yet")
    chain = [*ReceiptChain(state.receipts).back_from(state.committed.receipt, wanted)]
    if any(isinstance(found, MissingReceipts) for found in chain):
        return skipped("not every commit names its receipt")
    names = {found.name for found in chain if not isinstance(found, MissingReceipts)}
    losers = [name for name in state.receipts.names(wanted.first, wanted.last) if name not in names]
    if len(losers) <= MAX_LOSING_RECEIPTS:
        return ok(f"{len(losers):,} receipts of attempts that did not commit")
    return warning(
        f"{len(losers):,} receipts of the last {len(names):,} commits are of attempts that did not commit",
        expected=f"at most {MAX_LOSING_RECEIPTS:,}: few jobs that run at the same time",
        advice="look whether two stacks or machines ingest the source: they undo each other's work. Receipts may stay",
    )


def _staged_files(state: SourceState) -> Finding:
    folder = f"{state.identity.state_prefix}/staging/"
    try:
        old = [info for info in state.store.list(folder) if state.now_ts - info.modified_ts > STAGED_SECS]
    except BucketMissing:
        old = []
    if not old:
        return ok("none that is older than two days")
    return warning(
        f"{len(old):,} staged files of {sum(info.size for info in old):,} bytes are older than {age(STAGED_SECS)}",
        expected="none: the next run removes what is older than a day",
        advice="look whether runs may delete there (s3:DeleteObject); if nobody ingests the source any more, delete "
        f"{state.store.uri}{folder}",
    )


def _uploads(table: UploadsOfTable) -> Finding:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    place = place_of(table.uri)
    if place is None:
        return skipped("local disks have no uploads")
    bucket, key = place
    now_ts, client = table.clock(), connection(table.settings).client
    try:
        pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=f"{key}/")
        listed = [each for page in islice(pages, MAX_PAGES) for each in page.get("Uploads", ())]
    except ClientError as error:  # not everybody may ask, and no run has to
        return skipped(f"uploads cannot be listed: {first_line(str(error))}")
    found = [each for each in listed if each["Key"].startswith(f"{key}/")]
    old = [each for each in found if now_ts - _initiated_ts(each) > UPLOAD_SECS]
    if not old:
        return ok(f"{len(found):,} are in progress")
    return warning(
        f"{len(old):,} uploads began more than {age(UPLOAD_SECS)} ago and never ended, such as {old[0]['Key']}",
        expected="none: S3 charges for their parts",
        advice="add a lifecycle rule that aborts incomplete uploads: docs/deploy.md#a-lake-that-exists-already",
    )


def _initiated_ts(upload: dict[str, Any]) -> float:
    return float(upload["Initiated"].timestamp())


SOURCE_CHECKS: Sequence[Check[SourceState]] = (
    Check("state.losing-receipts", _receipts, needs=("state.checkpoint",)),
    Check("state.staged-files", _staged_files),
)
TABLE_CHECKS: Sequence[Check[UploadsOfTable]] = (Check("state.uploads", _uploads),)
