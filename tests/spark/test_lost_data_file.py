"""A data file of the table is lost: what docs/runbook.md says to do about it brings every row back."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.audit.report import Verdict
from blizzard.doctor.check import Verdict as Found
from spark_job.engines.spark.engine import SparkEngine
from spark_job.repair.wishes import Wish
from spark_job.repair.work import Fate, Item, Kind
from spark_job.tasks.engine import Engine
from tests.unit.doctor_world import DoctorWorld
from tests.unit.documents import section
from tests.unit.operator_world import paths

pytestmark = pytest.mark.spark

FILES = "a/1.ndjson.gz", "a/2.ndjson.gz", "b/3.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path, spark: Callable[[], SparkSession]) -> DoctorWorld:
    engine: Callable[[], Engine] = partial(SparkEngine, spark)
    made = DoctorWorld(tmp_path, pipeline={"engine": "auto"}, spark=engine)
    for path in FILES:
        made.land(path, f"{path} 0", None, f"{path} 2")
        made.run()
    return made


def lose_data_file(world: DoctorWorld, version: int) -> None:
    log = (world.lake / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    (added,) = (json.loads(line)["add"]["path"] for line in log if line.startswith('{"add"'))
    (world.lake / added).unlink()


def run_as_written(folder: Path) -> list[str]:
    """The commands of the runbook, with another table: what each of them prints."""
    written = section("docs/runbook.md", "### A data file of the table is lost")
    programs = re.findall(r'^ *\$ python -c "(.*)"$', written, re.MULTILINE)
    assert [program.count("'lake/orders'") for program in programs] == [1, 1]
    return [
        subprocess.run(
            [sys.executable, "-c", program.replace("lake/orders", "lake")],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for program in programs
    ]


def test_out_of_the_log_and_its_files_read_anew(world: DoctorWorld) -> None:
    lose_data_file(world, 1)
    assert world.finding("table.data-files").verdict is Found.PROBLEM
    assert world.audit().names["data_files_lost"]
    shown, done = run_as_written(world.folder)
    assert shown.replace("True", "False") == done
    assert done.count(".parquet") == 1
    assert world.finding("table.data-files").verdict is Found.OK
    report = world.audit()
    assert (report.verdict, report.rows.unexplained) == (Verdict.BAD, 2)
    lost = paths(report, "rows_deleted")
    assert lost == [FILES[1]]
    results = world.repair(lambda parts: Wish([Item(Kind.REPLACE, path) for path in lost]))
    assert [result.fate for result in results] == [Fate.DONE]
    report = world.audit()
    assert (report.verdict, report.notices, report.rows.found) == (Verdict.GOOD, [], 6)
    assert sorted(world.table().to_pyarrow_table()["id"].to_pylist()) == sorted(
        f"{path} {number}" for path in FILES for number in (0, 2)
    )
