"""S3 Inventory reports: lists of all objects of a bucket, which S3 makes daily or weekly, as compressed CSV.

A report is a folder, named by the time at which S3 began to scan the bucket. `manifest.json` in it names the data files
and their columns, and `manifest.checksum`, which S3 writes last, has its MD5.
"""

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from itertools import islice
from typing import IO, cast
from urllib.parse import unquote_plus

from blizzard.errors import NotFound, PermanentError
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.sweep.late_cursor import ListingPosition

MAX_AGE_SECS = 8 * 86_400.0
"""S3 makes a weekly report every seven days, and may take a day. An older one: the inventory was switched off."""
REQUIRED = ("Key", "Size", "LastModifiedDate", "ETag")
PAGE_ROWS = 1_000
LOOKUP_FILES = 50_000
"""So many files are looked up at a time. They are in no order, so each look-up reads much of the ledger."""
_PARALLEL_LISTS = 32
_FOLDER = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
_FOLDER_TIME = "%Y-%m-%dT%H-%MZ"
_BROKEN = (OSError, EOFError, zlib.error, csv.Error, ValueError, IndexError)


class UnusableInventory(PermanentError):
    """There is no report, or it cannot be read, or is not one of this source."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """`key` is relative to the inventory's URI."""

    key: str
    md5: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """A complete report. `name`: of its folder. Objects that were created before `started_ts` are in it, as far as S3
    promises that. `columns`: number of the column by name."""

    name: str
    started_ts: float
    columns: Mapping[str, int]
    files: tuple[DataFile, ...]


def newest_inventory(store: ObjectStore, source_uri: str, now_ts: float) -> Inventory:
    """`store`: the objects below the inventory's URI. Raises UnusableInventory, AccessDenied, BucketMissing."""
    folders = [folder.removesuffix("/") for folder in store.list_folders() if _FOLDER.fullmatch(folder.rstrip("/"))]
    for name in sorted(folders, reverse=True):
        try:
            checksum = store.get(f"{name}/manifest.checksum")
            manifest = store.get(f"{name}/manifest.json")
        except NotFound:
            continue  # S3 is still writing it
        found = decode_manifest(name, manifest, checksum, _bucket_of(source_uri))
        if now_ts - found.started_ts > MAX_AGE_SECS:
            raise UnusableInventory(
                f"the newest inventory report {store.uri}{name} is older than {MAX_AGE_SECS / 86_400:.0f} days; check "
                "that the inventory is still enabled"
            )
        return found
    raise UnusableInventory(
        f"{store.uri} has no complete inventory report; expected a folder such as 2026-11-24T01-00Z with a "
        "manifest.json and a manifest.checksum. S3 may take 48 hours for the first one"
    )


def decode_manifest(name: str, manifest: bytes, checksum: bytes, bucket: str) -> Inventory:
    """Raises UnusableInventory. `bucket`: that of the source."""
    what = f"the inventory report {name}"
    if checksum.decode("ascii", "replace").strip() != _md5(manifest):
        raise UnusableInventory(f"{what}: manifest.json does not have the MD5 that manifest.checksum says")
    try:
        document = json_fields.mapping(json.loads(manifest))
        file_format, found_bucket = json_fields.text(document["fileFormat"]), json_fields.text(document["sourceBucket"])
        columns = [column.strip() for column in json_fields.text(document["fileSchema"]).split(",")]
        created_ts = int(document["creationTimestamp"]) / 1000
        files = tuple(_data_file(json_fields.mapping(file)) for file in json_fields.array(document["files"]))
    except json_fields.MALFORMED as error:
        raise UnusableInventory(f"{what}: its manifest.json cannot be read ({error!s:.200})") from error
    if file_format != "CSV":
        raise UnusableInventory(f"{what} is in format {file_format:.20}; only CSV can be read: change the inventory's")
    if found_bucket != bucket:
        raise UnusableInventory(f"{what} is one of bucket {found_bucket:.80}; expected one of {bucket}")
    missing = [column for column in REQUIRED if column not in columns]
    if missing:
        raise UnusableInventory(f"{what} has no column {', '.join(missing)}; add it to the inventory's fields")
    scanned_ts = datetime.strptime(name, _FOLDER_TIME).replace(tzinfo=UTC).timestamp()
    return Inventory(name, min(created_ts, scanned_ts), {column: at for at, column in enumerate(columns)}, files)


@dataclass(frozen=True, slots=True)
class InventoryPage:
    """Some rows of a report. `end`: the position after them. `files`: those of the source that are young enough."""

    rows: int
    files: Sequence[ObjectInfo]
    end: ListingPosition


@dataclass(frozen=True, slots=True)
class InventoryReader:
    """Reads a report in pieces. Keys become relative to `source_uri`."""

    store: ObjectStore
    inventory: Inventory
    source_uri: str

    def pages(self, start: ListingPosition, since_ts: float | None) -> Iterator[InventoryPage]:
        """From `start` on: data file `partition`, after so many rows. Raises UnusableInventory."""
        names = [file.key for file in self.inventory.files]
        first = names.index(start.partition) if start.partition in names else 0
        for file in self.inventory.files[first:]:
            done = int(start.after or 0) if file.key == start.partition else 0
            with _naming(file), self.store.open(file.key) as reader:
                for page in _csv_pages(reader, file, done):
                    done += len(page)
                    files = [info for row in page if (info := self._info(row, since_ts)) is not None]
                    yield InventoryPage(len(page), files, ListingPosition(file.key, str(done)))

    def _info(self, row: Sequence[str], since_ts: float | None) -> ObjectInfo | None:
        """None for an object that is too old, deleted, not the current version, or not below the source's URI."""
        columns = self.inventory.columns
        modified_ts = datetime.fromisoformat(row[columns["LastModifiedDate"]]).timestamp()
        if (since_ts is not None and modified_ts < since_ts) or not self._is_current(row):
            return None
        # As in events: a space is a plus, and a plus is %2B.
        key, prefix = unquote_plus(row[columns["Key"]], errors="strict"), _prefix_of(self.source_uri)
        if not key.startswith(prefix) or key.endswith("/"):
            return None
        etag = row[columns["ETag"]].strip('"')
        return ObjectInfo(key[len(prefix) :], int(row[columns["Size"]]), etag, modified_ts)

    def _is_current(self, row: Sequence[str]) -> bool:
        latest, marker = self.inventory.columns.get("IsLatest"), self.inventory.columns.get("IsDeleteMarker")
        return (latest is None or row[latest] == "true") and (marker is None or row[marker] != "true")


def still_there(source: ObjectStore, files: Sequence[ObjectInfo]) -> list[ObjectInfo]:
    """Those of the files that the source has today, as it has them. A report is hours old."""
    found: dict[str, ObjectInfo] = {}

    def look(key: str) -> None:
        first = next(iter(source.list(key, recursive=False)), None)
        if first is not None and first.key == key:
            found[key] = first

    with ParallelCalls(_PARALLEL_LISTS, name="inventory") as calls:
        for info in files:
            calls.submit(partial(look, info.key))
    return [found[info.key] for info in files if info.key in found]


def _csv_pages(reader: ObjectReader, file: DataFile, skip: int) -> Iterator[list[list[str]]]:
    hashed = _HashedReader(reader)
    with gzip.GzipFile(fileobj=cast("IO[bytes]", hashed)) as unpacked, TextIOWrapper(unpacked, "utf-8") as lines:
        rows = csv.reader(lines)
        for _ in islice(rows, skip):
            pass
        while page := [*islice(rows, PAGE_ROWS)]:
            yield page
    if file.md5 and hashed.digest.hexdigest() != file.md5:
        raise ValueError(f"expected MD5 {file.md5}, found {hashed.digest.hexdigest()}")


class _HashedReader:
    """Reads an object, and remembers the MD5 of what was read."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self.digest = hashlib.md5(usedforsecurity=False)

    def read(self, size: int = -1, /) -> bytes:
        data = self._reader.read(size)
        self.digest.update(data)
        return data


@contextmanager
def _naming(file: DataFile) -> Iterator[None]:
    try:
        yield
    except (*_BROKEN, NotFound) as error:
        raise UnusableInventory(f"the inventory's data file {file.key} cannot be read ({error!s:.200})") from error


def _data_file(document: Mapping[str, object]) -> DataFile:
    """The manifest has full keys. The data files of an inventory are in its folder `data`."""
    key = json_fields.text(document["key"])
    folder, slash, name = key.rpartition("/data/")
    if not slash or "/" in name:
        raise ValueError(f"the data file {key!r:.200} is not in a folder data of {folder or 'the inventory'!r:.200}")
    return DataFile(f"data/{name}", json_fields.text(document.get("MD5checksum", "")))


def _bucket_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0]


def _prefix_of(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[2]


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
