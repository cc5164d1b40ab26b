"""A rebuild of the state of a `World`'s source, as `blizzard rebuild` makes it."""

from blizzard.state.delta_log import Commit
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.ports.stopwatch import Stopwatch
from spark_job.rebuild.parts import Parts
from spark_job.rebuild.staged_store import StagedStore
from spark_job.rebuild.state import Found, StateRebuild
from tests.unit.fakes import WatchedStore, World


def rebuild_of(world: World, *known: str) -> StateRebuild:
    return StateRebuild(parts_of(world, *known))


def parts_of(world: World, *known: str) -> Parts:
    """Each call of the store below counts as one of the world's. `known`: more sources of the table."""
    state = StagedStore(WatchedStore(world.state, world.calls), world.clock)
    files, table = WatchedStore(world.source, world.calls), world.table()
    ingest = ingest_files(
        world.identity,
        world.settings,
        table=table,
        reader=world.reader,
        state=state,
        files=files,
        clock=world.clock,
        watch=Stopwatch(world.stopwatch),
        new_id=world.new_id,
        sleep=world.clock.advance,
        log=world.record,
    )
    ids = {world.identity.source_id, *known}
    return Parts(
        world.identity, world.settings, table, state, files, ingest, ids, world.clock, world.new_id, world.record
    )


def rebuilt(world: World) -> Found:
    rebuild = rebuild_of(world)
    found = rebuild.find()
    if not found.is_well:
        rebuild.apply(found)
    return found


def lose_txns(world: World) -> None:
    """The rows are those of another table, whose log was left behind."""
    world.delta.commits = [Commit(0, {}, None, None)]


def lose_files(world: World, *paths: str) -> None:
    """A table that was copied before these files came."""
    world.delta.rows = [row for row in world.delta.rows if row.path not in paths]
