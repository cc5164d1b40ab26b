"""An operator who puts repaired records back, replaces files, and rebuilds the state, while everything else goes on."""

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from blizzard.errors import LostRace
from blizzard.ledger.merge import LedgerSettings
from blizzard.log import Log
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.settled_letters import letters_with_settlements
from blizzard.storage.base import ObjectStore
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.loop.files.settings import FileSettings
from spark_job.ports.stopwatch import Stopwatch
from spark_job.rebuild.parts import Parts
from spark_job.rebuild.staged_store import StagedStore
from spark_job.rebuild.state import StateRebuild
from spark_job.repair.repair_files import repair_files
from spark_job.repair.source import RepairSource
from spark_job.repair.work import Item, Kind, Work
from tests.proof.kill_calls.table import BROKEN_REPLACES, FileDelta, Loading
from tests.unit.fakes import REFUSED, MemoryReader, MemoryTable

NOT_LOOKED_UP = "a replay does not look up which of its records the table has"
SETTLED_BEFORE = "letters are settled before the commit that has their records"
READ_ANEW = "read anew"
"""The event that says which files an operator may have read as a whole."""
REBUILT = "rebuilt"
"""The event that says what was wrong with a state."""
SHARE_OF_REBUILDS, SHARE_OF_REPLAYS = 0.2, 0.7
"""The second is of the others."""
MOST_REPLACED = 3


def repaired(value: str) -> str:
    """What an operator makes of a refused record."""
    return value.removeprefix(REFUSED)


def operate(
    identity: SourceIdentity,
    settings: FileSettings,
    landing: ObjectStore,
    state: ObjectStore,
    delta: FileDelta,
    rng: random.Random,
    variant: str,
    **more: Any,
) -> None:
    """`more`: `new_id` and `log`."""
    calls = Loading(delta)
    settings = replace(settings, ledger=LedgerSettings())
    if rng.random() < SHARE_OF_REBUILDS:
        _rebuild(identity, settings, MemoryTable(delta, identity, calls), landing, state, **more)
        return
    letters = DeadLetters(state, identity.state_prefix, identity.source_id)
    reader = MemoryReader(landing, letters, identity.source_id, time.time, calls)  # type: ignore[arg-type]
    table = MemoryTable(delta, identity, calls)
    if variant == NOT_LOOKED_UP:
        table.rows_present = lambda wanted: {}  # type: ignore[method-assign]
    if variant == SETTLED_BEFORE:
        _settle_before()
    replays = variant not in BROKEN_REPLACES and rng.random() < SHARE_OF_REPLAYS
    items = [*(_to_replay(state, identity) if replays else _to_replace(landing, rng))]
    print(json.dumps({"event": READ_ANEW, "paths": [item.path for item in items if not item.given]}), flush=True)
    repair_files(
        identity,
        replace(settings, rules=replace(settings.rules, interval_files=rng.randint(1, 4))),
        work=Work(items),
        table=table,
        reader=reader,
        given_reader=reader,
        state=state,
        files=landing,
        clock=time.time,
        watch=Stopwatch(time.monotonic),
        sleep=lambda secs: time.sleep(min(secs, 0.001)),
        **more,
    ).run()


def _rebuild(
    identity: SourceIdentity,
    settings: FileSettings,
    table: MemoryTable,
    landing: ObjectStore,
    state: ObjectStore,
    *,
    new_id: Callable[[], str],
    log: Log,
) -> None:
    staged = StagedStore(state, time.time)
    ingest = ingest_files(
        identity,
        settings,
        table=table,
        reader=MemoryReader(landing, DeadLetters(state, identity.state_prefix, ""), "", time.time, table._calls),  # type: ignore[arg-type]
        state=staged,
        files=landing,
        clock=time.time,
        watch=Stopwatch(time.monotonic),
        new_id=new_id,
        sleep=lambda secs: None,
        log=log,
    )
    ids = {identity.source_id}
    rebuild = StateRebuild(Parts(identity, settings, table, staged, landing, ingest, ids, time.time, new_id, log))
    with suppress(LostRace):  # as somebody is told, who then starts it again
        found = rebuild.find()
        if not found.is_well:
            rebuild.apply(found)
        _say_rebuilt(found.problems)


def _say_rebuilt(problems: Iterable[str]) -> None:
    print(json.dumps({"event": REBUILT, "problems": [*problems]}), flush=True)


def _to_replay(state: ObjectStore, identity: SourceIdentity) -> Iterator[Item]:
    """All open letters: repaired records, and whole files as they are."""
    texts: dict[tuple[str, str], dict[int, str]] = {}
    for letter, settlement in letters_with_settlements(state, identity.state_prefix, identity.source_id, []):
        if settlement is None and letter.get("row") is not None:
            texts.setdefault((letter["path"], letter["etag"]), {})[letter["row"]] = repaired(letter["raw"])
        elif settlement is None:
            yield Item(Kind.FILE, letter["path"], letter["etag"])
    for (path, etag), given in texts.items():
        yield Item(Kind.GIVEN, path, etag, tuple(sorted(given)), given)


def _to_replace(landing: ObjectStore, rng: random.Random) -> Iterator[Item]:
    paths = [info.key for info in landing.list()]
    for path in rng.sample(paths, min(len(paths), rng.randint(1, MOST_REPLACED))):
        yield Item(Kind.REPLACE, path)


def _settle_before() -> None:
    whole = RepairSource.record

    def record(source: RepairSource, plan: Any, batch: Any) -> Any:
        found = whole(source, plan, batch)
        source._settler._settle(source._settler._expected[0], time.time(), (None, None))
        return found

    RepairSource.record = record  # type: ignore[method-assign]
