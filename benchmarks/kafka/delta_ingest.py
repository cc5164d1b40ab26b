"""The contender kafka-delta-ingest: its program, which reads messages of JSON, and writes into a table that exists.

It has an option to end at the topic's last offsets, but compares them with the offset after the last message, and so
waits for one more; and when it ends, it leaves what it has not written. So it is left to run until the table has all.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from deltalake import DeltaTable, Field, Schema

PROGRAM = "kafka-delta-ingest"
APP_ID = "benchmark"
LATENCY_SECS = 5
"""After which it writes what it has, unless it has enough for a data file before. The last messages wait for it."""
POLL_SECS = 0.1
MAX_SECS = 1_800
_TYPES = {"BIGINT": "long"}


class DeltaIngestFailed(RuntimeError):
    """It ended by itself, or is not done in time."""


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


def schema_of(columns: str) -> Schema:
    """`columns`: names and types as in `id STRING, n BIGINT`."""
    named = (column.split() for column in columns.split(", "))
    return Schema([Field(name, _TYPES.get(kind, kind.lower())) for name, kind in named])


def ingest(servers: str, topic: str, table: str, *, columns: str, messages: int, max_secs: float = MAX_SECS) -> None:
    """Returns as soon as the table has all messages of the topic. Raises DeltaIngestFailed."""
    DeltaTable.create(table, schema_of(columns))
    words = [PROGRAM, "ingest", topic, table, "--kafka", servers, "--auto_offset_reset", "earliest", "--checkpoints"]
    own = ["--consumer_group", str(uuid4()), "--app_id", APP_ID, "--allowed_latency", str(LATENCY_SECS)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*words, *own], stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, table, messages, time.monotonic() + max_secs)
        except DeltaIngestFailed as error:
            log.seek(0)
            raise DeltaIngestFailed(f"{error}: {log.read()[-2000:].decode(errors='replace')}") from error
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], table: str, messages: int, until: float) -> None:
    log, seen, rows = Path(table) / "_delta_log", 0, 0
    while rows < messages:
        if process.poll() is not None:
            raise DeltaIngestFailed(f"{PROGRAM} ended with exit code {process.returncode} after {rows:,} rows")
        if time.monotonic() > until:
            raise DeltaIngestFailed(f"{PROGRAM} has written {rows:,} of {messages:,} rows")
        time.sleep(POLL_SECS)
        versions = len([*log.glob("*.json")])
        if versions != seen:
            seen, rows = versions, _rows_of(table)


def _rows_of(table: str) -> int:
    """By the log alone."""
    return sum(DeltaTable(table).get_add_actions(flatten=True).column("num_records").to_pylist())
