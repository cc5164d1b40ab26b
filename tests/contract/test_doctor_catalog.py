"""`blizzard doctor` on the Glue catalog of the local AWS: tables that are registered, and those that cannot be."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from blizzard.config.load import load_config
from blizzard.doctor.aws import catalog
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Finding, Verdict
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.glue_table import table_name
from functions.sweeper.catalog import TableCatalog
from infra.local.processes.server_process import REGION, LocalAws
from tests.unit.documents import section
from tests.unit.fakes import Clock
from tests.unit.test_sweeper_round import Notes

CONFIG = """\
pipelines:
  Web-Events:
    table_uri: s3://{bucket}/events
    sources: {{web: {{uri: "s3://landing/raw/", schema: "id STRING"}}}}
  not_begun:
    table_uri: s3://{bucket}/nothing
    sources: {{web: {{uri: "s3://landing/other/", schema: "id STRING"}}}}
"""


@dataclass
class World:
    """A pipeline with a table that has a commit, and one that has none."""

    aws: LocalAws
    stack: Stack
    glue: Any
    database: str
    location: str

    def register(self, location: str) -> int:
        """As the sweeper does it."""
        found = TableCatalog(self.database, lambda: self.glue, cast("Any", Notes()), Clock(0.0))
        return found.register({"Web-Events": location})

    def look(self) -> Finding:
        return catalog.CHECKS[0].look(self.stack)


@pytest.fixture
def world(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    glue, database = aws.client("glue"), f"d{uuid.uuid4().hex}"
    bucket = f"lake-{uuid.uuid4().hex}"
    aws.client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    aws.client("s3").put_object(Bucket=bucket, Key="events/_delta_log/00000000000000000000.json", Body=b"{}")
    glue.create_database(DatabaseInput={"Name": database})
    file = tmp_path / "pipelines.yaml"
    file.write_text(CONFIG.format(bucket=bucket))
    stack = Stack("blizzard", load_config(file, {}), S3Settings.from_environment(aws.environment()), time.time)
    configure(stack, database)
    yield World(aws, stack, glue, database, f"s3://{bucket}/events")
    glue.delete_database(Name=database)


def configure(stack: Stack, database: str) -> None:
    """What the deployed stack says of itself."""
    stack.__dict__["parameters"] = {"GlueDatabase": database}


def test_a_table_that_the_sweeper_has_registered_is_found_whatever_its_scheme(world: World) -> None:
    assert [check.id for check in catalog.CHECKS] == ["aws.catalog"]
    assert world.register(world.location.replace("s3://", "s3a://")) == 0
    assert world.look().verdict is Verdict.OK
    assert world.look().found == f"1 tables are in the Glue database {world.database}"


def test_a_table_that_is_not_registered_is_named(world: World) -> None:
    found = world.look()
    assert (found.verdict, found.found) == (
        Verdict.WARNING,
        "the table web_events of pipeline Web-Events is not registered",
    )


def test_a_table_of_that_name_with_another_location_is_told(world: World) -> None:
    assert world.register("s3://other/events") == 0
    assert world.register(world.location) == 1
    found = world.look()
    assert found.verdict is Verdict.WARNING
    assert f"has the location s3://other/events, expected {world.location}" in found.found


def test_a_database_that_is_not_there_is_told(world: World) -> None:
    configure(world.stack, "nowhere")
    assert (world.look().verdict, world.look().found) == (Verdict.WARNING, "there is no Glue database nowhere")


def test_a_stack_without_a_catalog_has_nothing_to_look_at(world: World) -> None:
    configure(world.stack, "")
    found = world.look()
    assert (found.verdict, found.found) == (Verdict.SKIPPED, "no Glue database is configured")


def test_before_a_first_commit_no_table_is_looked_for(world: World) -> None:
    bucket = world.location.removeprefix("s3://").removesuffix("/events")
    world.aws.client("s3").delete_object(Bucket=bucket, Key="events/_delta_log/00000000000000000000.json")
    assert (world.look().verdict, world.look().found) == (
        Verdict.SKIPPED,
        "no table has a commit yet, and none is registered before",
    )


def test_its_advice_is_a_section_of_the_runbook(world: World) -> None:
    advice = world.look().advice
    assert "docs/runbook.md#a-table-is-not-in-the-catalog" in advice
    assert section("docs/runbook.md", "## A table is not in the catalog")


def test_names_are_those_that_athena_knows() -> None:
    assert [table_name(name) for name in ("events", "Web-Events.v2", "a_1")] == ["events", "web_events_v2", "a_1"]
