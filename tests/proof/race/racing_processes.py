"""The processes of a race: jobs, collectors, sweepers, and another writer with SQL."""

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from blizzard.log import stdout_log
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.identity import SourceIdentity
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep, sweep_rules
from tests.proof.kill import job as kill_job
from tests.proof.kill.names import Whom
from tests.proof.kill.transactions import TRANSACTIONS
from tests.proof.places import COLUMNS, Place, announce, place_of, prefix_of
from tests.proof.race.variants import break_job
from tests.proof.race.waiting import wait_until

Commit = Callable[..., int]
TRIES = 4
TABLE_TIMEOUT_SECS = 120.0
MAX_PAUSE_SECS = 0.3
"""Maximum; about the duration of a commit."""
LEFT_FILES, LEFT_SECS = 3, 30 * 86_400.0
"""Number of orphaned data files for VACUUM, and their age."""


def job(words: Sequence[str], variant: str, seed: str, met: Mapping[str, Any] | None, jvm_group: int) -> int:
    """The real job in the JVM that leads `jvm_group`. It pauses before each commit, so that others come in between.
    `met`: arguments of `meet` for its first commit."""
    break_job(variant, loses=met is None or met["waits"])
    if met is not None:
        meet(**met)
    _pause_before_commits(random.Random(seed))
    given = {"step": "", "nth": 0, "whom": Whom.JOB, "jvm": jvm_group, "seed": seed, "variant": ""}
    return kill_job.run_job([*words], **given, small_ledger=not variant)


def meet(told: Mapping[str, str], source_id: str, mark: str, waits: bool) -> None:
    turns = count(1)
    for kind in TRANSACTIONS:
        kind.commit = _meeting(kind.commit, turns, told, source_id, mark, waits)


def _meeting(
    whole: Commit, turns: Iterator[int], told: Mapping[str, str], source_id: str, mark: str, waits: bool
) -> Commit:
    """Makes one job of a source lose its first commit by exactly one commit.

    The job that `waits` begins its transaction, then waits until another job has published the state of a commit with
    the same sequence. The others wait with their first commit until that transaction has begun, which the file `mark`
    shows, and with their next commit until it has ended.
    """
    table, identity = place_of(told).table(), _identity(source_id)
    begun, over = Path(mark), Path(f"{mark}-and-over")

    def came_second(sequence: int) -> bool:
        copy = read_copy(table, identity)
        return copy is not None and copy.sequence >= sequence

    def commit(self: Any, *arguments: Any, sequence: int, **named: Any) -> int:
        first = next(turns) == 1
        if first and waits:
            begun.touch()
            wait_until(partial(came_second, sequence))
            try:
                return whole(self, *arguments, sequence=sequence, **named)
            finally:
                over.touch()
        if first:
            wait_until(begun.exists)
        elif begun.exists():
            wait_until(over.exists)
        return whole(self, *arguments, sequence=sequence, **named)

    return commit


def _pause_before_commits(rng: random.Random) -> None:
    for kind in TRANSACTIONS:
        kind.commit = _pausing(kind.commit, rng)


def _pausing(whole: Commit, rng: random.Random) -> Commit:
    def commit(self: Any, *arguments: Any, **named: Any) -> int:
        time.sleep(rng.uniform(0, MAX_PAUSE_SECS))
        return whole(self, *arguments, **named)

    return commit


def collector(told: Mapping[str, str], source_id: str, landing: str, announced: Sequence[Sequence[str]]) -> int:
    """Appends one segment after the other, without a pause."""
    place = place_of(told)
    for paths in announced:
        announce(place, source_id, landing, paths)
    return 0


def sweeper(told: Mapping[str, str], source_id: str, landing: str, times: int) -> int:
    """Sweeps as the sweeper function does, from the copy beside the table."""
    place, identity = place_of(told), _identity(source_id)
    rules = sweep_rules(
        pattern="**/*.ndjson.gz", prefix_template=None, lookback=1, settle_delay_secs=0.0, late_overlap_secs=60.0
    )
    log = stdout_log(time.time)
    sweep = SourceSweep(
        identity, place.landing(landing), place.table(), rules, time.time, lambda: secrets.token_hex(8), log
    )
    for number in range(times):
        sweep.sweep(SweepKind.LATE if number % 3 == 2 else SweepKind.WATERMARK)
    return 0


def _identity(source_id: str) -> SourceIdentity:
    pipeline, source = source_id.split(":")
    return SourceIdentity(pipeline, source, prefix_of(source_id))


def other_writer(told: Mapping[str, str], operations: Sequence[str], seed: str, within_secs: float) -> int:
    """Another writer's SQL operations, one after the other, spread over about `within_secs` from the first commit on.
    One that conflicts with a concurrent commit is logged and retried."""
    rng, log = random.Random(seed), stdout_log(time.time)
    spark, place = kill_job.session_of_the_running_jvm(), place_of(told)
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # VACUUM starts 10,000 tasks
    _wait_for_the_table(place)
    for operation in operations:
        time.sleep(rng.uniform(0, 2 * within_secs / len(operations)))
        left = _leave_files(Path(told["folder"], "table")) if operation == "VACUUM" and "folder" in told else []
        for _ in range(TRIES):
            try:
                _operate(spark, place.table_uri, operation, rng)
            except Exception as error:  # noqa: BLE001 - an operation of the other writer may fail in any way
                log("foreign_failed", operation=operation, error=str(error)[:300])
            else:
                log("foreign", operation=operation, removed=sum(not file.exists() for file in left))
                break
    return 0


def _wait_for_the_table(place: Place) -> None:
    deadline, table = time.monotonic() + TABLE_TIMEOUT_SECS, place.table()
    while table.head(f"_delta_log/{0:020d}.json") is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no table at {place.table_uri} within {TABLE_TIMEOUT_SECS:g} s")
        time.sleep(0.05)


def _leave_files(table: Path) -> list[Path]:
    """Old orphaned data files, as left by jobs that were killed before their commit: VACUUM must not remove younger
    ones. Only on local files, because the age of an S3 object cannot be set."""
    files = [table / f"part-{number:05d}-{secrets.token_hex(16)}.parquet" for number in range(LEFT_FILES)]
    for file in files:
        file.write_bytes(b"PAR1")
        os.utime(file, times=(time.time() - LEFT_SECS,) * 2)
    return files


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
