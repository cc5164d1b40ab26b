"""Tables as the first Blizzard and Penguin left them, made by hand from what these wrote.

One program at first: rows and state in one commit, the state as base64 of JSON in the Txn's app id, files by their
paths (version 1). Then two: Blizzard wrote Parquet files and kept watermarks in a file beside the table (version 0 or
1), and Penguin committed them, with a state that knows Parquet files only (version 2), or, as its documents say, with
`penguin-{pipeline}` for an app id.
"""

import base64
import json
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.storage.local import LocalStore
from tests.spark.lake import Lake, until

Records = list[dict[str, Any]]


class Form(StrEnum):
    ONE_PROGRAM = "state in the app id"
    PENGUIN = "Penguin's state, watermarks beside the table"
    PENGUIN_AT_FIRST = "Penguin's earlier state, watermarks beside the table"
    AS_DOCUMENTED = "penguin- for an app id, watermarks beside the table"


class Age(StrEnum):
    JUST_NOW = "just now"
    BEHIND_OTHERS = "150 commits of others ago"
    IN_A_CHECKPOINT = "in a checkpoint of Delta's alone"


@dataclass
class OlderTable:
    """What the first Blizzard does to a table and to its landing folder. `ingested` is what it knows of files."""

    lake: Lake
    form: Form
    rng: random.Random
    dated: bool = True
    version: int = -1
    files: dict[str, Records] = field(default_factory=dict)
    """Everything that ever landed."""
    ingested: dict[str, int] = field(default_factory=dict)
    """Records that are in the table."""
    states: list[tuple[str, str | None]] = field(default_factory=list)
    """After each commit: the app id, and the file beside the table."""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """Actions that Penguin has not committed yet."""
    coarse_clock: bool = False
    """Whether it counts whole seconds, rounded up, so that one commit has the time of the next."""
    newest_ts: float = 0.0
    """Unix seconds that its newest Txn says."""

    # -- what lands

    def land(self, name: str, *, day: int = 1, records: int | None = None) -> str:
        path = f"date=2026-01-{day:02d}/{name}.ndjson.gz" if self.dated else f"{name}.ndjson.gz"
        many = self.rng.randint(1, 40) if records is None else records
        content = [{"id": f"{path}#{row}", "n": row} for row in range(many)]
        self.files[path] = content
        self.lake.put(path, *content)
        return path

    def announce(self, *paths: str) -> None:
        """The event of each file, as it was sent when the file landed, however often it comes."""
        infos = filter(None, map(LocalStore(self.lake.landing()).head, paths))
        entries = [Entry(info.key, info.size, info.etag, info.modified_ts) for info in infos]
        manifest = Manifest(LocalStore(self.lake.table), "_blizzard/events_landing", "events:landing")
        manifest.append(entries, writer_id="collector", now_ts=time.time())

    # -- what it did

    def create(self) -> None:
        """As it made tables: empty, by version 0. What a source must have is not null."""
        names = [pa.field("id", pa.string(), nullable=self.rng.random() < 0.7), pa.field("n", pa.int64())]
        schema = pa.schema([*names, pa.field("date", pa.string())] if self.dated else names)
        DeltaTable.create(str(self.lake.table), schema=schema, partition_by=["date"] if self.dated else None)
        self.version = 0
        self.states.append(("", None))

    def ingest(self, *paths: str, partly: str | None = None, committed: bool = True) -> None:
        """One commit of these files; of `partly` only some of its records. Without one, Penguin is behind."""
        adds: list[dict[str, Any]] = []
        last = ""
        for path in paths:
            done = len(self.files[path])
            if path == partly:
                done = self.rng.randint(1, done - 1)
            last, size = self._parquet(path, self.files[path][:done])
            self.ingested[path] = done
            adds.append(self._add(last, path, size))
        app_id, beside = self._app_id(partly, last), self._beside()
        txn = {"appId": app_id, "version": len(self.states), "lastUpdated": self._txn_ms()}
        self.waiting += [{"txn": txn}, *adds]
        if committed:
            self.commit_rest()
        if beside is not None:
            self.lake.copy.parent.mkdir(exist_ok=True)
            self.lake.copy.write_text(beside)
        self.states.append((app_id, beside))

    def commit_rest(self) -> None:
        self.commit(*self.waiting)
        self.waiting.clear()

    def commit(self, *actions: Mapping[str, Any]) -> None:
        self.version += 1
        info = {"commitInfo": {"timestamp": _now_ms(), "operation": "WRITE", "operationParameters": {"mode": "Append"}}}
        lines = "\n".join(json.dumps(action) for action in (info, *actions))
        (self.lake.log_folder / f"{self.version:020d}.json").write_text(lines + "\n")

    def grow_old(self, age: Age) -> None:
        if age is Age.BEHIND_OTHERS:
            for number in range(150):
                self.commit({"txn": {"appId": "somebody else", "version": number, "lastUpdated": _now_ms()}})
        if age is Age.IN_A_CHECKPOINT:
            self.commit()
            DeltaTable(str(self.lake.table)).create_checkpoint()
            for version in self.lake.versions()[:-1]:
                (self.lake.log_folder / f"{version:020d}.json").unlink()

    def wait_until_newer(self) -> None:
        """What lands from now on is not of a second that its state may have seen."""
        newest_ts = max(time.time(), self.newest_ts)
        until(lambda: time.time() >= int(newest_ts) + 1)

    # -- what it wrote

    def _txn_ms(self) -> int:
        millis = -(-_now_ms() // 1000) * 1000 if self.coarse_clock else _now_ms()
        self.newest_ts = millis / 1000
        return millis

    def _parquet(self, source: str, records: Records) -> tuple[str, int]:
        folder = source.rpartition("/")[0]
        name = f"{folder}/{self._uuid()}.parquet" if folder else f"{self._uuid()}.parquet"
        file = self.lake.table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
        pq.write_table(pa.Table.from_pylist(records, schema), file, compression="snappy")
        return name, file.stat().st_size

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128)))

    def _add(self, name: str, source: str, size: int) -> dict[str, Any]:
        values = {"date": source.partition("/")[0].removeprefix("date=")} if self.dated else {}
        add = {"path": name, "partitionValues": values, "size": size}
        return {"add": {**add, "modificationTime": _now_ms(), "dataChange": True}}

    def _app_id(self, partly: str | None, parquet: str) -> str:
        if self.form is Form.AS_DOCUMENTED:
            return "penguin-events"
        state: dict[str, Any] = {"schema_version": 2, "source_state": {"files": {}}, "delta_version": self.version}
        if self.form is Form.PENGUIN:
            state["watermark"] = {"state": "Active", "value": parquet}
        if self.form is Form.PENGUIN_AT_FIRST:
            state["watermark"] = parquet
        if self.form is Form.ONE_PROGRAM:
            known = {path: {"RecordsRead": n} if path == partly else "Finished" for path, n in self.ingested.items()}
            state = {"schema_version": 1, "source_state": {"files": known}, "delta_version": self.version}
        return "blizzard:" + base64.b64encode(json.dumps(state).encode()).decode()

    def _beside(self) -> str | None:
        if self.form is Form.ONE_PROGRAM:
            return None
        marks: dict[str, str] = {}
        for path in sorted(self.ingested):
            folder, _, name = path.rpartition("/")
            if folder:
                marks[folder] = name
        state = {"state": "Active", "value": max(self.ingested)}
        document = {"watermark": state, "partition_watermarks": marks, "last_update_ts": int(time.time())}
        return json.dumps({"schema_version": self.rng.randint(0, 1), **document}, indent=2)

    # -- what there must be

    def expected(self) -> Iterator[str]:
        return (record["id"] for content in self.files.values() for record in content)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
