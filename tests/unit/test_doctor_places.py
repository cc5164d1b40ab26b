"""Faults of a configuration, and of local folders, each found under its id."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from blizzard.doctor.check import Verdict
from tests.unit.doctor_world import DoctorWorld, Fault, assert_found_alone, ingested, wrong


def no_jars(world: DoctorWorld) -> None:
    world.pipeline["engine"] = "spark"
    world.environ["BLIZZARD_JARS"] = str(world.folder / "nowhere")


def local_without_spark(world: DoctorWorld) -> None:
    world.pipeline["engine"] = "local"
    world.settings["on_overwrite"] = "replace"


def auto_without_spark(world: DoctorWorld) -> None:
    world.pipeline["engine"] = "auto"
    world.settings["on_overwrite"] = "replace"
    world.environ["BLIZZARD_JARS"] = str(world.folder / "nowhere")


def other_log_store(world: DoctorWorld) -> None:
    world.environ["BLIZZARD_SPARK_CONF"] = "spark.delta.logStore.s3.impl=io.delta.storage.S3SingleDriverLogStore"


def txns_of_new_tables_expire(world: DoctorWorld) -> None:
    name = "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration"
    world.environ["BLIZZARD_SPARK_CONF"] = f"'{name}=interval 1 day'"


def wrong_variable(world: DoctorWorld) -> None:
    world.environ["BLIZZARD_SPARK_CONF"] = "spark.driver.memory"


def misspelt_field(world: DoctorWorld) -> None:
    world.settings["patern"] = "*"


def no_source(world: DoctorWorld) -> None:
    world.settings["uri"] = "elsewhere"


def no_match(world: DoctorWorld) -> None:
    world.settings["pattern"] = "*.csv"


def file_for_a_table(world: DoctorWorld) -> None:
    """Where a folder was to be created."""
    (world.folder / "taken").write_bytes(b"")
    world.pipeline["table_uri"] = "taken/lake"


FAULTS: Mapping[str, Fault] = {
    "a misspelt field": (misspelt_field, "configuration.valid", Verdict.PROBLEM, "did you mean `pattern`?"),
    "no jars for Spark": (no_jars, "configuration.engine", Verdict.PROBLEM, "orders with `engine: spark`, and"),
    "what local leaves to Spark": (
        local_without_spark,
        "configuration.engine",
        Verdict.WARNING,
        "left to Spark: orders: `on_overwrite: replace`",
    ),
    "what auto leaves to Spark where there is none": (
        auto_without_spark,
        "configuration.engine",
        Verdict.WARNING,
        "of its files is overwritten, and it cannot start on this machine: Spark needs Delta's jars, and found no",
    ),
    "another log store": (other_log_store, "configuration.log-store", Verdict.PROBLEM, "replaces the log store"),
    "Txns expire": (txns_of_new_tables_expire, "configuration.log-store", Verdict.PROBLEM, "new tables expire"),
    "a wrong variable": (
        wrong_variable,
        "configuration.log-store",
        Verdict.PROBLEM,
        "the check failed: BLIZZARD_SPARK",
    ),
    "no source": (no_source, "storage.source-list", Verdict.PROBLEM, "there is no such folder"),
    "no file matches": (no_match, "storage.pattern", Verdict.WARNING, "none of the first 4 files matches *.csv"),
    "a file for a table": (file_for_a_table, "storage.table-write", Verdict.PROBLEM, "taken is a file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_under_its_id(name: str, tmp_path: Path) -> None:
    assert_found_alone(FAULTS[name], tmp_path, ("configuration.", "storage."))


def test_a_table_whose_place_is_a_file_cannot_be_read(tmp_path: Path) -> None:
    world = DoctorWorld(tmp_path)
    world.lake.write_bytes(b"")
    found = {check_id: text for check_id, text in wrong(world.examine()) if check_id.startswith("storage.")}
    assert {*found} == {"storage.table-read", "storage.table-write"}
    assert "expected a folder, found a file" in found["storage.table-read"]


def test_a_check_that_needs_another_is_skipped_if_that_one_fails(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    no_source(world)
    for check_id in ("storage.source-read", "storage.pattern"):
        found = world.finding(check_id)
        assert (found.verdict, found.found) == (Verdict.SKIPPED, "storage.source-list has no good answer")
