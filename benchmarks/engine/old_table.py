"""`python -m benchmarks.engine.old_table TABLE COMMITS`: commits of the local engine to a table that is old and large.

The table is made by hand: its log says what a year of ingestion would have left, and its data files are not there,
since no commit reads them.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.transaction import AddAction
from pyspark.sql.types import StructType

from blizzard.log import silent
from blizzard.storage.local import LocalStore
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.engines.local.transaction import FirstCommit
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.add_action import add_fields
from spark_job.table.columns import SOURCE_COLUMN
from spark_job.table.engine import NewTable
from spark_job.table.schema import columns_of
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile

SCHEMA = "id STRING NOT NULL, n BIGINT"
SOURCE_ID, APP_ID = "events:landing", "blizzard:events:landing"
LOG = "_delta_log"
STATE_BYTES = 1_500
"""Of the `userMetadata` of a commit."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Seconds of the process's first commit, which opens the table, and of each other one; the peak memory of the
    process; why Spark has to commit instead; "": it has not; and seconds of commits of deltalake alone."""

    first_secs: float
    secs: list[float]
    peak_bytes: int
    needs_spark: str
    deltalake_secs: list[float]


def make(table: Path, versions: int, files: int) -> None:
    """A table at version `versions` with about so many data files, and a checkpoint of it."""
    log, first = table / LOG, FirstCommit(LocalStore(table, may_be_missing=True), str(table), time.time)
    columns = StructType([*columns_of(SCHEMA).fields, SOURCE_COLUMN])
    first.create_table(NewTable(columns, (), {}))
    first.commit([], app_id=APP_ID, sequence=0, user_metadata="")
    done = 0
    for version in range(1, versions + 1):
        until = files * version // versions
        added = [{"add": add_fields(data_file(number, version))} for number in range(done, until)]
        txn = {"appId": APP_ID, "version": version, "lastUpdated": version}
        _write(log, version, [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}, {"txn": txn}, *added])
        done = until
    DeltaTable(table).create_checkpoint()


def _write(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def data_file(number: int, sequence: int) -> DataFile:
    """With the statistics that the job writes."""
    path = f"part-{number:032x}.snappy.parquet"
    low, high = _values(number, sequence, 0), _values(number, sequence, 9)
    nulls = {"id": 0, "n": 0, "_source": dict.fromkeys(SOURCE_COLUMN.dataType.names, 0)}
    stats = json.dumps({"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": nulls})
    return DataFile(path, 2_000, 10, 1.0, {}, stats)


def _values(number: int, sequence: int, row: int) -> dict[str, Any]:
    source = {
        "source": SOURCE_ID,
        "file": f"date=2026-01-01/part-{number:032x}.ndjson.gz",
        "row": row,
        "etag": f"{number:032x}",
        "modified": "2026-01-01T00:00:00.000Z",
        "sequence": sequence,
    }
    return {"id": f"{number:012x}", "n": number, "_source": source}


def commit(table: Path, count: int) -> Commits:
    """As the loop does: it looks for the newest version, reads its Txn, and commits one data file."""
    source = TableSource(str(table), SOURCE_ID, APP_ID, SCHEMA, {}, ())
    store = LocalStore(table)
    local = LocalTable(source, store, OpenTables(dict).at(source.table_uri, store), clock=time.time, log=silent)
    secs: list[float] = []
    try:
        for _ in range(count + 1):
            began = time.monotonic()
            transaction = local.start()
            sequence = (transaction.txn_version(APP_ID) or 0) + 1
            files = [data_file(10**9 + sequence, sequence)]
            transaction.commit(files, app_id=APP_ID, sequence=sequence, user_metadata="x" * STATE_BYTES)
            secs.append(time.monotonic() - began)
    except NeedsSpark as error:
        return Commits(0.0, [], _peak_bytes(), error.reason, [])
    peak_bytes = _peak_bytes()
    return Commits(secs[0], secs[1:], peak_bytes, "", _commits_of_deltalake(table, count))


def _commits_of_deltalake(table: Path, count: int) -> list[float]:
    """As a program that goes on makes them: after each it has the table for the next one."""
    opened, secs = DeltaTable(table), list[float]()
    for number in range(count):
        sequence = 10**6 + number
        file = data_file(10**9 + sequence, sequence)
        add = AddAction(file.path, file.size, {}, round(file.modified_ts * 1000), True, file.stats)
        txn = Transaction("loop", sequence, sequence)
        began = time.monotonic()
        opened.create_write_transaction(
            [add],
            "append",
            opened.schema(),
            commit_properties=CommitProperties(app_transactions=[txn]),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
        )
        opened.update_incremental()
        secs.append(time.monotonic() - began)
    return secs


def _peak_bytes() -> int:
    """`getrusage` would count the parent's memory before this process began."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(asdict(commit(Path(sys.argv[1]), int(sys.argv[2])))))
