"""The same files through both engines: the same rows, dead letters, receipts and state. What only Spark can judge is
left to it, and nothing is lost meanwhile."""

import gzip
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.environment import variables
from blizzard.storage.local import LocalStore
from infra.local.processes.checkout import CHECKOUT
from spark_job.engines.local import source_rows
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.table_source import TableSource
from spark_job.tasks import batch_tasks
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import Lake, until

FOR_SPARK = '{"id": 7, "n": 1}'
"""A number in a text column."""


@pytest.fixture
def local_lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path / "local", spark)
    made.folder.mkdir()
    with closing(made):
        yield made


def land(lake: Lake, rng: random.Random) -> None:
    """Good, bad and empty files, flat and in folders, one larger than a batch, one cut off."""
    for number in range(40):
        folder = rng.choice(("", "day=1/", "day=2/deep/"))
        lines = [_line(rng, number, row) for row in range(rng.randint(0, 30))]
        lake.put(f"{folder}{rng.getrandbits(64):016x}-{number}.ndjson.gz", *lines)
    lake.put("large.ndjson.gz", *({"id": f"large {row}" + "x" * 200, "n": row} for row in range(600)))
    lake.put_bytes("cut.ndjson.gz", gzip.compress(b'{"id": "a"}\n' * 500)[:-20])


def _line(rng: random.Random, number: int, row: int) -> dict[str, Any] | str:
    kind = rng.random()
    if kind < 0.05:
        return '{"id": '
    if kind < 0.1:
        return {"id": f"{number}-{row}", "n": "text"}
    return {"id": f"{number}-{row}-é", "n": rng.choice([row, None, 2**40]), "unknown": [1]}


def receipts_of(lake: Lake) -> list[Any]:
    return [
        (one["sequence"], [{**line, "etag": "", "event_ts": 0} for line in one["files"]]) for one in lake.receipts()
    ]


def rows_of(lake: Lake) -> list[dict[str, Any]]:
    return [{**row, "_source": {**row["_source"], "etag": "", "modified": None}} for row in lake.rows()]


def letters_of(lake: Lake) -> list[Any]:
    letters = lake.letters()
    return sorted((one["path"], one.get("row"), one["stage"], one["error"], one.get("raw")) for one in letters)


@pytest.mark.parametrize("task_bytes", [batch_tasks.MIN_TASK_BYTES, 20_000], ids=["one task", "several processes"])
def test_both_engines_make_the_same_of_the_same_files(
    tmp_path: Path,
    spark: Callable[[], SparkSession],
    local_lake: EngineLake,
    monkeypatch: pytest.MonkeyPatch,
    task_bytes: int,
) -> None:
    monkeypatch.setattr(batch_tasks, "MIN_TASK_BYTES", task_bytes)
    by_spark = EngineLake(tmp_path / "spark", spark, chosen="spark")
    by_spark.folder.mkdir()
    for lake in (by_spark, local_lake):
        lake.settings = {"checkpoint": {"interval_files": 15, "interval_bytes": "100KB"}}
        land(lake, random.Random(7))
        for _ in range(2):
            lake.run(late=True)
    assert rows_of(local_lake) == rows_of(by_spark)
    assert letters_of(local_lake) == letters_of(by_spark)
    assert any(letter[2] == "decompress" for letter in letters_of(local_lake))
    assert receipts_of(local_lake) == receipts_of(by_spark)
    ours, theirs = local_lake.state_beside(), by_spark.state_beside()
    assert (ours.sequence, ours.partition_watermarks, ours.files) == (
        theirs.sequence,
        theirs.partition_watermarks,
        theirs.files,
    )
    rows = local_lake.rows()
    assert len({(row["_source"]["file"], row["_source"]["row"]) for row in rows}) == len(rows) > 500


def test_what_only_spark_can_judge_waits_for_spark(local_lake: EngineLake) -> None:
    local_lake.put("a.ndjson.gz", {"id": "good", "n": 1}, FOR_SPARK)
    with pytest.raises(NeedsSpark, match="engine: auto"):
        local_lake.run()
    assert not (local_lake.table / "_delta_log").exists()
    assert [*local_lake.table.rglob("*.parquet")] == []
    local_lake.chosen = "auto"
    local_lake.run()
    assert sorted(row["id"] for row in local_lake.rows()) == ["7", "good"]
    assert [line["reason"] for line in local_lake.logged("spark_needed")] == [
        "deciding on records that only its parser can judge, such as record 1 of a.ndjson.gz"
    ]
    local_lake.put("b.ndjson.gz", {"id": "more", "n": 1}, FOR_SPARK)
    local_lake.run()
    assert sorted(row["id"] for row in local_lake.rows()) == ["7", "7", "good", "more"]


def test_rows_of_a_shallow_clone_are_left_to_spark(local_lake: EngineLake) -> None:
    """Its log names data files of another table."""
    local_lake.put("a.ndjson", {"id": "a", "n": 1})
    local_lake.run()
    other = local_lake.table.parent / "other"
    shutil.copytree(local_lake.table / "_delta_log", other / "_delta_log")
    for file in (other / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('"path":"', f'"path":"file:{local_lake.table}/'))
    source = TableSource(str(other), "events:landing", "blizzard:events:landing", "id STRING, n BIGINT", {}, ())
    local_lake.chosen = "local"
    with pytest.raises(NeedsSpark, match="where those of a shallow clone are"):
        local_lake.engine().table(source).holds_rows()
    local_lake.chosen = "auto"
    assert local_lake.engine().table(source).holds_rows()


def test_a_question_that_needs_many_data_files_is_left_to_spark(
    local_lake: EngineLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_rows, "MAX_FILES_READ", 1)
    for name in ("a", "b"):
        local_lake.put(f"{name}.ndjson", {"id": name, "n": 1})
        local_lake.run(late=True)
    source = TableSource(str(local_lake.table), "events:landing", "blizzard:events:landing", "id STRING", {}, ())
    with pytest.raises(NeedsSpark, match="2 data files, more than 1"):
        local_lake.engine().table(source).last_rows(after_sequence=-1)
    local_lake.chosen = "auto"
    table = local_lake.engine().table(source)
    for _ in range(2):
        assert {content.path for content in table.last_rows(after_sequence=-1)} == {"a.ndjson", "b.ndjson"}
    assert [line["reason"] for line in local_lake.logged("spark_needed")] == [
        "looking for a source's rows in 2 data files, more than 1"
    ]


def test_the_engines_take_turns_in_one_lake(local_lake: EngineLake) -> None:
    for number, engine in enumerate(["spark", "local", "auto", "local", "spark", "local"]):
        local_lake.chosen = engine
        local_lake.put(f"{number}.ndjson", {"id": f"{number}", "n": number})
        local_lake.run(late=True)
    assert [row["id"] for row in local_lake.rows()] == [f"{number}" for number in range(6)]
    assert local_lake.state_beside().sequence == 5
    assert LocalStore(local_lake.table).head("_delta_log/00000000000000000005.json") is not None


def test_overwritten_files_are_replaced_by_spark(local_lake: EngineLake) -> None:
    local_lake.chosen = "auto"
    local_lake.settings = {"on_overwrite": "replace"}
    local_lake.put("a.ndjson", {"id": "old", "n": 1}, {"id": "older", "n": 2})
    local_lake.put("b.ndjson", {"id": "other", "n": 3})
    local_lake.run(late=True)
    local_lake.put("a.ndjson", {"id": "new", "n": 4})
    local_lake.announce("a.ndjson")
    local_lake.run(late=True)
    assert sorted(row["id"] for row in local_lake.rows()) == ["new", "other"]
    assert "replacing the rows of overwritten files" in local_lake.logged("spark_needed")[0]["reason"]
    assert [line["reason"] for line in local_lake.logged("rows_written_twice")] == ["rows that replace others"]


def test_processes_that_read_end_with_the_job_even_if_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import time\n"
        "from blizzard.log import silent\n"
        "from blizzard.storage.s3_connection import S3Settings\n"
        "from spark_job.engines.local.engine import LocalEngine\n"
        "if __name__ == '__main__':\n"
        "    processes = LocalEngine(S3Settings(), dict, silent, cores=3).processes\n"
        "    processes.map(str, ['a', 'b', 'c'])\n"
        "    print(*processes.pids(), flush=True)\n"
        "    time.sleep(600)\n"
    )
    file = tmp_path / "job.py"
    file.write_text(script)
    with subprocess.Popen(
        [sys.executable, file],
        cwd=CHECKOUT,
        env={**variables(), "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        workers = [int(pid) for pid in job.stdout.readline().split()]
        assert len(workers) == 2
        job.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
