"""S3 Inventory reports as S3 writes them."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore

SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
FOLDER = "inventory/landing/daily"
"""Where the destination bucket has the reports; the store of a test begins below it."""


def row_of(info: ObjectInfo, prefix: str = "", **changes: str) -> dict[str, str]:
    modified = datetime.fromtimestamp(info.modified_ts, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {
        "Bucket": "landing",
        "Key": quote_plus(prefix + info.key, safe="/"),
        "VersionId": "",
        "IsLatest": "true",
        "IsDeleteMarker": "false",
        "Size": str(info.size),
        "LastModifiedDate": modified,
        "ETag": info.etag,
        **changes,
    }


def folder_of(scanned_ts: float) -> str:
    return datetime.fromtimestamp(scanned_ts, UTC).strftime("%Y-%m-%dT%H-%MZ")


def write_report(
    store: MemoryStore,
    parts: Iterable[Iterable[Mapping[str, str]]],
    scanned_ts: float,
    *,
    schema: str = SCHEMA,
    **changes: Any,
) -> str:
    """Returns the name of the report's folder. `parts`: the rows of each data file; `changes`: of the manifest."""
    name, listed = folder_of(scanned_ts), []
    for number, rows in enumerate(parts):
        text = io.StringIO()
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for row in rows:
            writer.writerow([row[column] for column in schema.split(", ")])
        data = gzip.compress(text.getvalue().encode())
        key = f"data/{name}-{number}.csv.gz"
        store.put(key, data)
        digest = hashlib.md5(data).hexdigest()
        listed.append({"key": f"{FOLDER}/{key}", "size": len(data), "MD5checksum": digest})
    manifest = {
        "sourceBucket": "landing",
        "destinationBucket": "arn:aws:s3:::reports",
        "version": "2016-11-30",
        "creationTimestamp": str(int(scanned_ts * 1000)),
        "fileFormat": "CSV",
        "fileSchema": schema,
        "files": listed,
        **changes,
    }
    put_manifest(store, name, json.dumps(manifest).encode())
    return name


def put_manifest(store: MemoryStore, name: str, manifest: bytes) -> None:
    store.put(f"{name}/manifest.json", manifest)
    store.put(f"{name}/manifest.checksum", hashlib.md5(manifest).hexdigest().encode())
    store.put(f"hive/dt={name}/symlink.txt", b"s3://reports/...")
