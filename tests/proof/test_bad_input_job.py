"""The hostile files and keys through the real job: one batch, every record a row or a dead letter, and counted."""

import gzip
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from blizzard.dead_letters import Stage
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from spark_job.ingest import Totals
from spark_job.job import source_job
from spark_job.ports import Outcome
from tests.fixtures_s3 import CREDENTIALS
from tests.proof.bad_input_chance import files_by_chance, texts_by_chance
from tests.proof.bad_input_compare import compare
from tests.proof.bad_input_corpus import FILES, GOOD, KEYS, TEXTS
from tests.proof.bad_input_places import tree
from tests.proof.bad_input_reader import LIMITS, Found
from tests.proof.bad_input_records import DDL, PARTITION
from tests.proof.bad_input_spark import check_decided
from tests.proof.bad_input_stores import CANARY, linked
from tests.proof.campaign import Failed
from tests.spark.conftest import spark  # noqa: F401 - a fixture
from tests.spark.lake import Lake, run

pytestmark = pytest.mark.spark
TABLE = {"partition_by": [PARTITION]}
SEED = 1
FEW_FOLDERS = [key for key in KEYS if key.count("/") < 20]
"""A sweep asks for each folder; 508 of them within each other would take as long as everything else together."""
SETTINGS = {"schema": DDL, "limits": asdict(LIMITS)}


def found_in(lake: Lake) -> Found:
    """Read by another engine; what was counted of each file is in the receipts."""
    letters = lake.letters()
    dead = {letter["path"]: Stage(letter["stage"]) for letter in letters if "row" not in letter}
    outcomes = [
        Outcome(
            line["path"],
            line["etag"],
            line["size"],
            rows=line["rows"],
            dead_records=line["dead_records"],
            stage=dead.get(line["path"]),
            error=line["error"],
        )
        for line in receipts(lake)
    ]
    return Found(outcomes, lake.rows(), [], letters)


def receipts(lake: Lake) -> Iterable[dict[str, Any]]:
    for file in sorted((lake.table / "_blizzard" / "events_landing" / "receipts").iterdir()):
        yield from json.loads(gzip.decompress(file.read_bytes()))["files"]


def check_totals(totals: Totals, found: Found) -> None:
    of_files = sum("row" not in letter for letter in found.letters)
    expected = (len(found.outcomes), len(found.rows), of_files, len(found.letters) - of_files)
    assert (totals.files, totals.rows, totals.dead_files, totals.dead_records) == expected


def holds(folder: Path, key: str) -> bool:
    """Whether a local folder can hold a file of this key, and shows it under it."""
    try:
        LocalStore(folder).put(key, GOOD)
    except Exception:  # noqa: BLE001 - names that the product refuses are seen elsewhere
        return False
    return True


def test_a_batch_of_hostile_files_loses_nothing_in_silence(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "canary.ndjson").write_bytes(CANARY)
    lake = Lake(tmp_path, spark, SETTINGS, TABLE)
    lake.landing().mkdir()
    linked(lake.landing())
    files = {hostile.name: hostile.body for hostile in FILES}
    files |= {f"by-chance/{path}": body for path, body in files_by_chance(random.Random(SEED)).items()}
    for path, body in files.items():
        lake.put_bytes(path, body)
    files |= {key: GOOD for key in FEW_FOLDERS if holds(lake.landing(), key)}
    before = {name: state for name, state in tree(tmp_path).items() if not name.startswith("table")}
    totals = lake.run()
    after = {name: state for name, state in tree(tmp_path).items() if not name.startswith("table")}
    assert totals.files == len(files) > 140
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} <= {"landing", "unfinished"}
    found = found_in(lake)
    compare(files, found)
    check_totals(totals, found)
    assert not [row for row in lake.rows() if row["id"] == "canary"]
    assert lake.run().files == 0


def test_a_batch_of_hostile_texts_loses_nothing_in_silence(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    lake = Lake(tmp_path, spark, {"format": "text", "schema": None, "limits": asdict(LIMITS)})
    files = {hostile.name: hostile.body for hostile in TEXTS} | texts_by_chance(random.Random(SEED))
    for path, body in files.items():
        lake.put_bytes(path, body)
    totals = lake.run()
    found = found_in(lake)
    compare(files, found, is_text=True)
    check_totals(totals, found)


def test_hostile_keys_on_s3_are_keys_like_any_other(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
    s3_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s3 = S3Settings(s3_endpoint, "us-east-1", max_attempts=2)
    boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1").create_bucket(Bucket="hostile-keys")
    landing = S3Store("hostile-keys", "", s3)
    # moto finds no route to a key with a line feed.
    files = {key: GOOD * 2 + b"broken\n" if len(key) % 2 else b"\xff" for key in FEW_FOLDERS if "\n" not in key}
    for key, body in files.items():
        landing.put(key, body)
    for name, value in CREDENTIALS.items():
        monkeypatch.setitem(spark().sparkContext.environment, name, value)
    lake = Lake(tmp_path, spark, {**SETTINGS, "uri": "s3://hostile-keys/"}, TABLE)
    (described,) = lake.config().sources()
    totals = run(source_job(*described, spark=spark, s3=s3, log=lake._note))
    found = found_in(lake)
    compare(files, found)
    check_totals(totals, found)


def test_a_line_that_spark_decides_is_held_to_the_same_rules(spark: Callable[[], SparkSession]) -> None:  # noqa: F811
    spark()
    lines = ['{"id": 7}', '{"id": "a", "ratio": NaN}', '{"id": "a", "n": 1.0}']
    assert check_decided(spark(), lines) == {"lines that Spark took": 2, "lines that Spark refused": 1}
    # Of these Spark alone makes others; the job does not ask it about them.
    for never in ('{"id": "a", "at": "12:30"}', '{"id": "a", "at": 18446744073710}'):
        with pytest.raises(Failed, match=r"at does not fit, as .*, and is datetime"):
            check_decided(spark(), [never])
    with pytest.raises(Failed, match="it is a row, and cannot be one"):
        check_decided(spark(), ['{"id": "a", "attributes": {"a": "\\ud800", "a": "b"}}'])
