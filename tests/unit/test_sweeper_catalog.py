"""When a round registers tables in the catalog, and what a failure of it changes."""

from dataclasses import dataclass, field
from typing import Any, cast

from botocore.exceptions import ClientError, EndpointConnectionError

from blizzard.state.checkpoint import Checkpoint, encode
from functions.sweeper.catalog import TableCatalog
from functions.sweeper.report import catalog_metrics_of
from tests.unit.test_sweeper_round import World


@dataclass
class Glue:
    """A Glue database in memory."""

    tables: dict[str, Any] = field(default_factory=dict)
    down: bool = False

    def get_table(self, **parameters: Any) -> dict[str, Any]:
        if self.down:
            raise EndpointConnectionError(endpoint_url="https://glue")
        if parameters["Name"] not in self.tables:
            raise ClientError({"Error": {"Code": "EntityNotFoundException", "Message": "no"}}, "GetTable")
        return {"Table": self.tables[parameters["Name"]]}

    def create_table(self, **parameters: Any) -> dict[str, Any]:
        self.tables[parameters["TableInput"]["Name"]] = parameters["TableInput"]
        return {}


def world_with(glue: Glue) -> World:
    world = World()
    world.catalog = TableCatalog("analytics", lambda: glue, cast("Any", world.log), world.clock)
    world.add("a", "x")
    return world


def commit(world: World) -> None:
    checkpoint = Checkpoint(pipeline="p", source="a", sequence=0)
    world.state.put("_blizzard/p_a_checkpoint.json", encode(checkpoint).encode())
    world.clock.advance(60)


def test_a_table_is_registered_after_its_first_commit() -> None:
    glue = Glue()
    world = world_with(glue)
    world.run()
    assert glue.tables == {}
    commit(world)
    world.run()
    assert glue.tables["p"]["StorageDescriptor"]["Location"] == world.sources["p:a"].table_uri.rstrip("/")


def test_a_catalog_that_fails_changes_nothing_of_a_round() -> None:
    world, without = world_with(Glue(down=True)), World()
    without.add("a", "x")
    for each in (world, without):
        each.run()
        commit(each)
    done, expected = world.run(), without.run()
    assert catalog_metrics_of(done) == {"TablesNotRegistered": 1}
    assert (done.sweeps, done.failed, world.found("a")) == (expected.sweeps, 0, without.found("a"))
    [line] = world.log.named("table_not_registered")
    assert (line["table"], line["database"]) == ("p", "analytics")
