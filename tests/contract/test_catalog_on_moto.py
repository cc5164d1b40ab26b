"""Tables in the Glue catalog of the local AWS."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from functions.sweeper.catalog import RETRY_SECS, GlueClient, TableCatalog, table_input
from infra.local.processes.server_process import LocalAws
from tests.unit.fakes import Clock
from tests.unit.test_sweeper_round import Notes

LOCATION = "s3://lake/events"


@dataclass
class World:
    glue: Any
    database: str
    clock: Clock = field(default_factory=lambda: Clock(0.0))
    log: Notes = field(default_factory=Notes)

    def catalog(self, client: GlueClient | None = None) -> TableCatalog:
        """As in a new container."""
        return TableCatalog(self.database, lambda: client or self.glue, cast("Any", self.log), self.clock)

    def tables(self) -> dict[str, Any]:
        return {table["Name"]: table for table in self.glue.get_tables(DatabaseName=self.database)["TableList"]}


@pytest.fixture
def world(aws: LocalAws) -> Iterator[World]:
    glue, database = aws.client("glue"), f"d{uuid.uuid4().hex}"
    glue.create_database(DatabaseInput={"Name": database})
    yield World(glue, database)
    glue.delete_database(Name=database)


def test_a_table_is_registered_as_delta_at_its_location(world: World) -> None:
    assert world.catalog().register({"Web-Events": f"{LOCATION}/"}) == 0
    (table,) = world.tables().values()
    assert (table["Name"], table["TableType"]) == ("web_events", "EXTERNAL_TABLE")
    assert table["Parameters"]["spark.sql.sources.provider"] == "delta"
    storage = table["StorageDescriptor"]
    assert storage["Location"] == storage["SerdeInfo"]["Parameters"]["path"] == LOCATION
    assert [line["table"] for line in world.log.named("table_registered")] == ["web_events"]


def test_a_registered_table_is_left_as_it_is(world: World) -> None:
    changed = table_input("events", "s3a://lake/events/") | {"Description": "ours"}
    world.glue.create_table(DatabaseName=world.database, TableInput=changed)
    assert world.catalog().register({"events": LOCATION}) == 0
    assert world.tables()["events"]["Description"] == "ours"
    assert world.log.lines == []


def test_a_table_of_the_name_at_another_location_is_left_and_reported(world: World) -> None:
    world.glue.create_table(DatabaseName=world.database, TableInput=table_input("events", "s3://other/events"))
    assert world.catalog().register({"events": LOCATION, "orders": "s3://lake/orders"}) == 1
    assert world.tables()["events"]["StorageDescriptor"]["Location"] == "s3://other/events"
    assert "orders" in world.tables()
    [line] = world.log.named("table_not_registered")
    assert f"expected the location {LOCATION}, found s3://other/events; rename" in str(line["error"])


def test_a_failure_is_tried_again_later_and_not_at_each_sweep(world: World) -> None:
    missing = TableCatalog("nowhere", lambda: world.glue, cast("Any", world.log), world.clock)
    assert missing.register({"events": LOCATION}) == 1
    assert missing.register({"events": LOCATION}) == 0
    assert [line["database"] for line in world.log.named("table_not_registered")] == ["nowhere"]
    world.glue.create_database(DatabaseInput={"Name": "nowhere"})
    world.clock.advance(RETRY_SECS)
    assert missing.register({"events": LOCATION}) == 0
    assert len(world.glue.get_tables(DatabaseName="nowhere")["TableList"]) == 1
    world.glue.delete_database(Name="nowhere")


class Racing:
    """Another container registers the table between two calls of this one. Counts the calls."""

    def __init__(self, glue: Any, location: str) -> None:
        self.glue, self.location, self.calls = glue, location, 0

    def get_table(self, **parameters: Any) -> dict[str, Any]:
        self.calls += 1
        found: dict[str, Any] = self.glue.get_table(**parameters)
        return found

    def create_table(self, **parameters: Any) -> dict[str, Any]:
        self.calls += 1
        other = {**parameters["TableInput"]}
        other["StorageDescriptor"] = {**other["StorageDescriptor"], "Location": self.location}
        self.glue.create_table(DatabaseName=parameters["DatabaseName"], TableInput=other)
        found: dict[str, Any] = self.glue.create_table(**parameters)
        return found


@pytest.mark.parametrize(("location", "failures"), [(LOCATION, 0), ("s3://other/events", 1)])
def test_two_containers_register_a_table_at_the_same_time(world: World, location: str, failures: int) -> None:
    assert world.catalog(Racing(world.glue, location)).register({"events": LOCATION}) == failures


def test_a_registered_table_costs_one_call_for_each_container(world: World) -> None:
    client = Racing(world.glue, LOCATION)
    world.glue.create_table(DatabaseName=world.database, TableInput=table_input("events", LOCATION))
    catalog = world.catalog(client)
    for _ in range(3):
        assert catalog.register({"events": LOCATION}) == 0
    assert client.calls == 1


def test_denied_access_is_reported(world: World) -> None:
    class Denying(Racing):
        def get_table(self, **parameters: Any) -> dict[str, Any]:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}, "GetTable")

    assert world.catalog(Denying(world.glue, LOCATION)).register({"events": LOCATION}) == 1
    [line] = world.log.named("table_not_registered")
    assert "AccessDeniedException" in str(line["error"])
