"""Checks of storage: each right is tried by a request that leaves nothing behind."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path
from typing import Any

from blizzard.config.model import Source
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.errors import BucketMissing
from blizzard.log import first_line
from blizzard.paths.pattern import Pattern
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.s3_connection import S3Settings, connection
from blizzard.storage.s3_errors import S3Call, UploadGoneError, translate_s3_errors

LOOKED_AT = 1000
"""Objects of a source: one page of a listing."""
SKEW_WARNING_SECS, SKEW_PROBLEM_SECS = 10.0, 60.0
"""S3 refuses requests from 15 minutes on. A sweep that takes a file for older than it is settles it too early."""
NO_UPLOAD = "blizzard-doctor-tries-a-right"
NO_OBJECT = "_blizzard/_doctor/nothing"
READ_ONLY = os.ST_RDONLY


@dataclass(frozen=True, slots=True)
class SourcePlace:
    source: Source
    store: ObjectStore


@dataclass(frozen=True, slots=True)
class TablePlace:
    """`folder`: of a table on a local disk; None: it is on S3."""

    uri: str
    store: ObjectStore
    settings: S3Settings
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """`prefix`: what in it may be listed."""

    name: str
    prefix: str
    settings: S3Settings
    clock: Callable[[], float]

    @property
    def client(self) -> Any:
        return connection(self.settings).client

    def call(self, operation: str) -> S3Call:
        return S3Call(operation, f"s3://{self.name}/{self.prefix}")


def place_of(uri: str) -> tuple[str, str] | None:
    """Bucket and key of an S3 URI; None for a local one."""
    if not uri.startswith("s3://"):
        return None
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


# --- A bucket ---


def _credentials(bucket: Bucket) -> Finding:
    found = connection(bucket.settings).resolved()
    if found.access_key is None:
        return problem(
            "no credentials",
            expected="credentials where AWS's own tools look for them",
            advice="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
        )
    kind = "temporary" if found.token else "permanent"
    return ok(f"{kind} credentials, region {found.region}")


def _region(bucket: Bucket) -> Finding:
    """boto3 follows S3 to another region; obstore and Spark do not. Not everybody may ask, and no run has to."""
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    try:
        found = bucket.client.get_bucket_location(Bucket=bucket.name).get("LocationConstraint")
    except ClientError as error:
        return skipped(f"the bucket's region is not known: {first_line(str(error))}")
    # S3's oldest region has no name here, and the oldest buckets of Ireland an old one.
    there, ours = (
        {None: "us-east-1", "EU": "eu-west-1"}.get(found, found),
        connection(bucket.settings).resolved().region,
    )
    if there == ours or not there:
        return ok(f"the bucket is in {there or ours}")
    return problem(
        f"the bucket is in {there}, and requests are for {ours}",
        expected="one region for bucket and requests",
        advice=f"set AWS_REGION={there}",
    )


def _clock(bucket: Bucket) -> Finding:
    with translate_s3_errors(bucket.call("list")):
        before = bucket.clock()
        response = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=bucket.prefix, MaxKeys=1)
        after = bucket.clock()
    date = response["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
    if not date:
        return skipped("the server does not say its time")
    there = parsedate_to_datetime(date).timestamp()
    # The header has whole seconds.
    skew = max(before - (there + 1), there - after, 0.0)
    return clock_finding(skew, "S3's")


def clock_finding(skew_secs: float, whose: str) -> Finding:
    """`whose` completes "from … clock"."""
    found = f"this machine's clock differs by {skew_secs:,.0f} s from {whose} clock"
    expected, advice = f"less than {SKEW_WARNING_SECS:.0f} s", "let the machine's clock follow a time server (NTP)"
    if skew_secs >= SKEW_PROBLEM_SECS:
        return problem(found, expected=expected, advice=advice)
    if skew_secs >= SKEW_WARNING_SECS:
        return warning(found, expected=expected, advice=advice)
    return ok(found)


# --- A source ---


def _can_list(place: SourcePlace) -> Finding:
    first = next(place.store.list(), None)
    return ok("it can be listed" if first else "it can be listed, and is empty")


def _can_read(place: SourcePlace) -> Finding:
    """One byte, which also needs the object's KMS key."""
    found = next((info for info in _first_objects(place) if info.size), None)
    if found is None:
        return skipped("there is no file to read yet")
    place.store.get_range(found.key, 0, 1)
    return ok(f"{found.key} can be read")


def _pattern(place: SourcePlace) -> Finding:
    pattern, found = Pattern(place.source.pattern), _first_objects(place)
    if not found:
        return skipped("there is no file yet")
    matching = sum(pattern.matches(info.key) for info in found)
    if matching:
        return ok(f"{matching:,} of the first {len(found):,} files match {place.source.pattern}")
    return warning(
        f"none of the first {len(found):,} files matches {place.source.pattern}, such as {found[0].key}",
        expected="a pattern that the source's files match",
        advice="correct `pattern` or `uri`; see docs/configuration.md#patterns",
    )


def _first_objects(place: SourcePlace) -> list[ObjectInfo]:
    return [*islice(place.store.list(), LOOKED_AT)]


# --- A table ---


def _can_read_table(place: TablePlace) -> Finding:
    try:
        first = next(place.store.list(LOG_FOLDER), None)
    except BucketMissing:
        if place.folder is None:
            raise
        first = None
    if first is None:
        return ok("it can be listed, and there is no table yet")
    place.store.get_range(first.key, 0, 1)
    return ok("its log can be listed and read")


def _can_write_table(place: TablePlace) -> Finding:
    return _can_write_folder(place.folder) if place.folder is not None else _can_write_objects(place)


def _can_write_folder(folder: Path) -> Finding:
    """The folder itself, or the nearest one above it that exists."""
    found = next(each for each in (folder, *folder.parents) if each.exists())
    if not stat.S_ISDIR(found.stat().st_mode):
        return problem(f"{found} is a file", expected="a folder", advice="correct `table_uri`, or move the file")
    if not os.access(found, os.W_OK | os.X_OK) or os.statvfs(found).f_flag & READ_ONLY:
        return problem(
            f"{found} may not be written to",
            expected="a folder in which this user may create files",
            advice=f"give the right to the user of `blizzard run`, or correct `table_uri`: ls -ld {found}",
        )
    return ok(f"files may be created in {found}")


def _can_write_objects(place: TablePlace) -> Finding:
    """A part of an upload that does not exist: S3 looks at the right, s3:PutObject, first."""
    bucket, key = place_of(place.uri) or ("", "")
    call = S3Call("put", f"{place.uri}/{NO_OBJECT}")
    request = {"Bucket": bucket, "Key": f"{key}/{NO_OBJECT}", "UploadId": NO_UPLOAD, "PartNumber": 1, "Body": b"0"}
    try:
        with translate_s3_errors(call):
            connection(place.settings).client.upload_part(**request)
    except UploadGoneError:
        return ok("objects may be created below it")
    return skipped("the server takes a part of an upload that does not exist, so nothing can be said")


BUCKET_CHECKS: Sequence[Check[Bucket]] = (
    Check("storage.credentials", _credentials),
    Check("storage.region", _region, needs=("storage.credentials",)),
    Check("storage.clock", _clock, needs=("storage.credentials",)),
)
SOURCE_CHECKS: Sequence[Check[SourcePlace]] = (
    Check("storage.source-list", _can_list),
    Check("storage.source-read", _can_read, needs=("storage.source-list",)),
    Check("storage.pattern", _pattern, needs=("storage.source-list",)),
)
TABLE_CHECKS: Sequence[Check[TablePlace]] = (
    Check("storage.table-read", _can_read_table),
    Check("storage.table-write", _can_write_table),
)
