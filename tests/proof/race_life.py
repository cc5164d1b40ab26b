"""Who takes part in a race: jobs, collectors, sweepers, and somebody else with SQL. Each is a process of its own."""

import random
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blizzard.identity import Identity
from blizzard.log import stdout_log
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from blizzard.sweep import Kind
from blizzard.sweeping import SourceSweep, sweep_rules
from spark_job.adopt import Transaction
from tests.proof import kill_job
from tests.proof.kill_place import COLUMNS, LocalPlace, announce
from tests.proof.race_names import TXN_NOT_COMPARED, UNCONDITIONAL_PUT

TRIES = 4
TABLE_TIMEOUT_SECS = 120.0


def job(words: Sequence[str], variant: str) -> int:
    """The real job."""
    _break(variant)
    return kill_job.live([*words], step="", nth=0, together=False, seed="", variant="")


def _break(variant: str) -> None:
    if variant == TXN_NOT_COMPARED:
        Transaction.txn_version = lambda self, app_id: None  # type: ignore[method-assign]
    elif variant == UNCONDITIONAL_PUT:
        for store in (LocalStore, S3Store):
            conditional = store.create

            def create(self: Any, key: str, data: bytes, conditional: Any = conditional) -> Any:
                return self.put(key, data) if "/pending/" in key else conditional(self, key, data)

            store.create = create  # type: ignore[method-assign]


def collector(folder: str, source_id: str, landing: str, announced: Sequence[Sequence[str]], variant: str) -> int:
    """One segment after the other, as fast as it can."""
    _break(variant)
    place = LocalPlace(Path(folder))
    for paths in announced:
        announce(place, source_id, landing, paths)
    return 0


def sweeper(folder: str, source_id: str, landing: str, times: int, variant: str) -> int:
    """Sweeps as the sweeper function does, from the copy beside the table."""
    _break(variant)
    place = LocalPlace(Path(folder))
    pipeline, source = source_id.split(":")
    identity = Identity(pipeline, source, f"_blizzard/{pipeline}_{source}")
    rules = sweep_rules(
        pattern="**/*.ndjson.gz", prefix_template=None, lookback=1, settle_delay_secs=0.0, late_overlap_secs=60.0
    )
    log = stdout_log(time.time)
    sweep = SourceSweep(
        identity, place.landing(landing), place.table(), rules, time.time, lambda: secrets.token_hex(8), log
    )
    for number in range(times):
        sweep.sweep(Kind.LATE if number % 3 == 2 else Kind.WATERMARK)
    return 0


def somebody(table_uri: str, operations: Sequence[str], seed: str, within_secs: float) -> int:
    """Somebody else's operations, one after the other, spread over about `within_secs` from the first commit on. One
    that has to give way to a concurrent commit says so, and is tried again."""
    rng, log = random.Random(seed), stdout_log(time.time)
    spark = kill_job.session_of_the_running_jvm()
    _wait_for(Path(table_uri) / "_delta_log" / f"{0:020d}.json")
    for operation in operations:
        time.sleep(rng.uniform(0, 2 * within_secs / len(operations)))
        for _ in range(TRIES):
            try:
                _operate(spark, table_uri, operation, rng)
            except Exception as error:  # noqa: BLE001 - somebody's trouble, not the product's
                log("foreign_failed", operation=operation, error=str(error)[:300])
            else:
                log("foreign", operation=operation)
                break
    return 0


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + TABLE_TIMEOUT_SECS
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {file} within {TABLE_TIMEOUT_SECS:g} s")
        time.sleep(0.05)


def _operate(spark: Any, uri: str, operation: str, rng: random.Random) -> None:
    table = f"delta.`{uri}`"
    if operation == "OPTIMIZE":
        spark.sql(f"OPTIMIZE {table}").collect()
    elif operation == "VACUUM":
        spark.sql(f"VACUUM {table}").collect()
    elif operation == "DELETE":
        k = rng.randint(3, 9)
        spark.sql(f"DELETE FROM {table} WHERE _source.file IS NOT NULL AND n % {k} = {rng.randrange(k)}").collect()
    elif operation == "RESTORE":
        newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]
        spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {max(0, newest - rng.randint(1, 3))}").collect()
    elif operation == "ADD COLUMNS":
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS (c{rng.randrange(10**9)} STRING)").collect()
    else:
        rows = [(f"somebody-{secrets.token_hex(8)}", number) for number in range(rng.randint(1, 5))]
        frame = spark.createDataFrame(rows, f"{COLUMNS[0]} STRING, {COLUMNS[1]} BIGINT")
        frame.write.format("delta").mode("append").save(uri)
