"""The local engine cleans up a table's log on S3, where a commit is as old as S3 says, and keeps the Txns."""

import os
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from deltalake import DeltaTable

from blizzard.errors import LostRace
from blizzard.log import silent
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.engines.local.table_options import table_options
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource
from tests.fixtures_s3 import BUCKET

PROPERTIES = {"delta.checkpointInterval": "4", "delta.logRetentionDuration": "interval 1 hours"}


@pytest.fixture
def s3(s3_endpoint: str) -> S3Settings:
    return S3Settings(s3_endpoint, "us-east-1")


@pytest.fixture
def prefix() -> str:
    return f"log-clean-up/{os.urandom(8).hex()}/"


def table_of(prefix: str, s3: S3Settings, source: str = "a") -> DeltaSourceTable:
    uri, store = f"s3://{BUCKET}/{prefix}", S3Store(BUCKET, prefix, s3)
    wanted = TableSource(uri, f"p:{source}", f"blizzard:p:{source}", "id STRING", {}, (), table_properties=PROPERTIES)
    options = partial(table_options, [uri], s3)
    opened = OpenTables(options).at(wanted.table_uri, store)
    return DeltaSourceTable(LocalTable(wanted, store, opened, clock=time.time, log=silent), wanted, store=store)


def make_older(prefix: str, age: timedelta) -> None:
    """What the server says of all objects that are there now."""
    from moto.s3.models import s3_backends

    (bucket,) = [each[BUCKET] for each in (backend.buckets for backend in accounts(s3_backends)) if BUCKET in each]
    for name, key in bucket.keys.items():
        if name.startswith(f"{prefix}{LOG_FOLDER}"):
            key.last_modified = datetime.now(UTC).replace(tzinfo=None) - age


def accounts(backends: object) -> list[object]:
    return [backend for account in backends.values() for backend in account.values()]  # type: ignore[attr-defined]


def test_old_commits_are_deleted_and_the_txns_of_all_sources_stay(s3: S3Settings, prefix: str) -> None:
    store = S3Store(BUCKET, prefix, s3)
    table_of(prefix, s3, "b").append(None, sequence=7, user_metadata="")
    table, written = table_of(prefix, s3), set[str]()
    for sequence in range(12):
        table.append(None, sequence=sequence, user_metadata="")
        written.update(info.key for info in store.list(LOG_FOLDER) if info.key.endswith(".json"))
        make_older(prefix, timedelta(hours=3))
    left = {info.key for info in store.list(LOG_FOLDER) if info.key.endswith(".json")}
    assert len(written) == 13
    assert 0 < len(left) < 9, left
    again = table_of(prefix, s3)
    assert {txn.app_id: txn.version for txn in again.txns()} == {"blizzard:p:a": 11, "blizzard:p:b": 7}
    assert again.txn_version("blizzard:p:b") == 7
    with pytest.raises(LostRace, match="sequence 11"):
        again.append(None, sequence=11, user_metadata="")
    again.append(None, sequence=12, user_metadata="")
    opened = DeltaTable(f"s3://{BUCKET}/{prefix}", storage_options=dict(table_options([f"s3://{BUCKET}"], s3)))
    assert (opened.version(), opened.transaction_version("blizzard:p:a")) == (13, 12)


def test_commits_that_are_younger_than_the_retention_stay(s3: S3Settings, prefix: str) -> None:
    table, store = table_of(prefix, s3), S3Store(BUCKET, prefix, s3)
    for sequence in range(9):
        table.append(None, sequence=sequence, user_metadata="")
        make_older(prefix, timedelta(minutes=30))
    left = [info.key for info in store.list(LOG_FOLDER) if info.key.endswith(".json")]
    assert len(left) == 9
