"""The hostile files through the real job: one batch, every record a row or a dead letter."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.dead_letters import Stage
from blizzard.storage.local import LocalStore
from spark_job.ports import Outcome
from tests.proof.bad_input_checks import CANARY, linked
from tests.proof.bad_input_compare import compare
from tests.proof.bad_input_corpus import FILES, GOOD, KEYS
from tests.proof.bad_input_places import tree
from tests.proof.bad_input_reader import LIMITS, Found
from tests.spark.conftest import spark  # noqa: F401 - a fixture
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark
SCHEMA = (
    "id STRING NOT NULL, n BIGINT, kind STRING, amount DECIMAL(38, 10), at TIMESTAMP, tags ARRAY<STRING>, "
    "attributes MAP<STRING, STRING>"
)
SETTINGS = {"schema": SCHEMA, "limits": asdict(LIMITS)}


def found_in(lake: Lake) -> Found:
    """Read by another engine; what became of each file follows from its letter, if it has one as a whole."""
    infos = {info.key: info for info in LocalStore(lake.landing()).list()}
    letters = lake.letters()
    dead = {letter["path"]: letter for letter in letters if "row" not in letter}
    outcomes = [Outcome(path, info.etag, info.size) for path, info in infos.items()]
    outcomes = [
        replace(o, stage=Stage(dead[o.path]["stage"]), error=dead[o.path]["error"]) if o.path in dead else o
        for o in outcomes
    ]
    return Found(outcomes, lake.rows(), [], letters)


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
    lake = Lake(tmp_path, spark, SETTINGS, {"partition_by": ["kind"]})
    lake.landing().mkdir()
    linked(lake.landing())
    files = {hostile.name: hostile.body for hostile in FILES}
    for path, body in files.items():
        lake.put_bytes(path, body)
    files |= {key: GOOD for key in KEYS if holds(lake.landing(), key)}
    before = {name: state for name, state in tree(tmp_path).items() if not name.startswith("table")}
    totals = lake.run()
    after = {name: state for name, state in tree(tmp_path).items() if not name.startswith("table")}
    assert totals.files == len(files) > 110
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} <= {"landing", "unfinished"}
    compare(files, found_in(lake))
    assert not [row for row in lake.rows() if row["id"] == "canary"]
    assert lake.run().files == 0
