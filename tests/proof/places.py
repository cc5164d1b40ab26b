"""The locations of a table and its sources: a local disk, or moto's S3."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from deltalake import DeltaTable

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, Source, read_source, reconcile
from infra.local.processes.server_process import REGION, LocalAws

SCHEMA = "id STRING NOT NULL, n BIGINT"
COLUMNS = ["id", "n"]
LoggedCommits = Iterable[tuple[int, list[dict[str, Any]]]]
"""Versions with their actions."""


class Place(Protocol):
    """`name`: in one or two words."""

    name: str

    @property
    def told(self) -> Mapping[str, str]:
        """Arguments of `place_of`."""
        ...

    @property
    def table_uri(self) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Of a process that works there."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """For deltalake."""
        ...

    def uri(self, source: str) -> str: ...

    def landing(self, source: str) -> ObjectStore: ...

    def table(self) -> ObjectStore: ...

    def put(self, source: str, path: str, body: bytes) -> None: ...

    def objects(self, source: str) -> Iterator[tuple[str, bytes]]: ...


@dataclass
class LocalPlace:
    folder: Path
    name: str = "local files"
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def told(self) -> Mapping[str, str]:
        return {"folder": str(self.folder)}

    @property
    def table_uri(self) -> str:
        return str(self.folder / "table")

    def uri(self, source: str) -> str:
        return str(self.folder / source)

    def landing(self, source: str) -> ObjectStore:
        return LocalStore(self.folder / source, may_be_missing=True)

    def table(self) -> ObjectStore:
        return LocalStore(self.table_uri, may_be_missing=True)

    def put(self, source: str, path: str, body: bytes) -> None:
        file = self.folder / source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / "unfinished"
        unfinished.write_bytes(body)
        unfinished.rename(file)

    def objects(self, source: str) -> Iterator[tuple[str, bytes]]:
        root = self.folder / source
        return ((file.relative_to(root).as_posix(), file.read_bytes()) for file in root.rglob("*.gz"))


@dataclass
class S3Place:
    aws: LocalAws
    bucket: str
    name: str = "S3"

    @classmethod
    def made(cls, aws: LocalAws, bucket: str) -> Self:
        """With its bucket."""
        place = cls(aws, bucket)
        place._client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        return place

    @cached_property
    def _client(self) -> Any:
        return self.aws.client("s3")

    @property
    def told(self) -> Mapping[str, str]:
        return {"endpoint": self.aws.endpoint, "bucket": self.bucket}

    @property
    def environment(self) -> Mapping[str, str]:
        return self.aws.environment()

    @property
    def options(self) -> Mapping[str, str]:
        return {**self.environment, "AWS_ALLOW_HTTP": "true"}

    @property
    def table_uri(self) -> str:
        return f"s3://{self.bucket}/table"

    def uri(self, source: str) -> str:
        return f"s3://{self.bucket}/{source}/"

    def landing(self, source: str) -> ObjectStore:
        return S3Store(self.bucket, f"{source}/", S3Settings.from_environment(self.environment))

    def table(self) -> ObjectStore:
        return S3Store(self.bucket, "table/", S3Settings.from_environment(self.environment))

    def put(self, source: str, path: str, body: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=f"{source}/{path}", Body=body)

    def objects(self, source: str) -> Iterator[tuple[str, bytes]]:
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{source}/"):
            for found in page.get("Contents", []):
                body = self._client.get_object(Bucket=self.bucket, Key=found["Key"])["Body"].read()
                yield found["Key"].removeprefix(f"{source}/"), body


def place_of(told: Mapping[str, str]) -> Place:
    """In another process, whose environment has the endpoint of moto's S3."""
    if "folder" in told:
        return LocalPlace(Path(told["folder"]))
    return S3Place(LocalAws(told["endpoint"], pid=0), told["bucket"])


def write_config(
    place: Place, file: Path, sources: Mapping[str, Mapping[str, Any]], *, pipeline: str = "events"
) -> list[str]:
    """One pipeline, whose sources have folders of their names; returns the job's arguments."""
    described = {
        name: {"uri": place.uri(name), "schema": SCHEMA, "settle_delay_secs": 0, **settings}
        for name, settings in sources.items()
    }
    file.write_text(json.dumps({"pipelines": {pipeline: {"table_uri": place.table_uri, "sources": described}}}))
    for name in sources:
        if isinstance(place, LocalPlace):
            (place.folder / name).mkdir(parents=True, exist_ok=True)
    return ["--config", str(file), "--sweep", "--once"]


def announce(place: Place, source_id: str, folder: str, paths: Iterable[str]) -> None:
    """Appends the events of these files, as the collector does."""
    landing = place.landing(folder)
    infos = [landing.head(path) for path in paths]
    entries = [Entry(info.key, info.size, info.etag, time.time()) for info in infos if info is not None]
    if entries:
        manifest = Manifest(place.table(), prefix_of(source_id), source_id)
        manifest.append(entries, writer_id="collector", now_ts=time.time())


# -- what is there


def prefix_of(source_id: str) -> str:
    """Of the source's state, below the table."""
    return f"_blizzard/{source_id.replace(':', '_')}"


def letters(place: Place, source_id: str) -> list[dict[str, Any]]:
    return list(DeadLetters(place.table(), prefix_of(source_id), source_id).letters())


def source_of(place: Place, folder: str) -> Source:
    """The content of its objects, all of them gzipped NDJSON."""
    return read_source(place.objects(folder), "id")


def verdict(
    place: Place, source: Source, letters: Sequence[Mapping[str, Any]], more: Sequence[str] = ()
) -> Reconciliation:
    """Every record of the source against every row of the table; for a table with one source. `more`: columns that
    files have brought."""
    return reconcile(source, place.table_uri, place.options, letters, [*COLUMNS, *more])


def rows(place: Place, version: int | None = None) -> Sequence[Mapping[str, Any]]:
    """Rows of the table's newest version, or of an older one, read by another engine."""
    table = DeltaTable(place.table_uri, version=version, storage_options=dict(place.options))
    found: list[Mapping[str, Any]] = table.to_pyarrow_table().to_pylist()
    return found


def log_of(table: ObjectStore) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The commits as they stand in the log."""
    for info in table.list("_delta_log/", recursive=False):
        name = info.key.removeprefix("_delta_log/")
        if name.endswith(".json") and name[:-5].isdigit():
            yield int(name[:-5]), [json.loads(line) for line in table.get(info.key).splitlines()]


def state_of(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The state in a commit; empty if another program made it."""
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    state: Mapping[str, Any] = json.loads(info.get("userMetadata") or "{}")
    return state


def broken_sequence(log: LoggedCommits, source_id: str) -> str | None:
    """Each commit of the source has the next sequence, and the state of that sequence. Returns a complaint, or None."""
    expected = None
    for version, actions in log:
        for action in actions:
            txn = action.get("txn")
            if txn is None or txn["appId"] != f"blizzard:{source_id}":
                continue
            found = (txn["version"], state_of(actions).get("sequence"))
            if found[0] != found[1] or expected not in (None, found[0]):
                return f"version {version}: expected Txn and state {expected} of {source_id}, found {found}"
            expected = txn["version"] + 1
    return None
