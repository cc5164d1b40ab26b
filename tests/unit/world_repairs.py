"""What an operator repairs in a healthy world, by `blizzard replay`, `blizzard replace` and `blizzard rebuild`."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from blizzard.errors import BlizzardError
from blizzard.state.stored_letters import LetterFilter
from spark_job.repair.wishes import GivenRecord, Wish, from_given, from_letters
from spark_job.repair.work import Fate, Item, Kind
from spark_job.wiring import SourceParts
from tests.unit.doctor_world import DoctorWorld
from tests.unit.interruptions import unavailable
from tests.unit.operator_world import IDENTITY

GIVEN, REPLAYED = "repairs by given records", "repairs of records that were read once more"
FILES, REPLACED = "repairs of files that were read once more", "repairs by files that were replaced"
REPEATED = "repairs that a storage fault interrupted, and were repeated"
REBUILT = "states that were rebuilt after the checkpoint's copy was lost"
REPAIRS = (GIVEN, REPLAYED, FILES, REPLACED, REPEATED, REBUILT)
"""Counts."""
LOOSE = "id STRING, amount BIGINT"


class Repairable(Protocol):
    """As HealthyWorld."""

    world: DoctorWorld
    chance: random.Random
    fates: dict[str, str]
    rows: Counter[str]
    good: Counter[str]
    bad: dict[str, Sequence[int]]
    refused: dict[str, Sequence[int]]
    too_long: set[str]
    deleted: Counter[str]
    counts: Counter[str]


def repair_something(made: Repairable) -> bool:
    """Returns whether there was something, and it was wanted."""
    possible = [_give, _read_records, _read_files, _rebuild]
    possible += [_replace] if made.world.spark is not None else []
    if made.chance.random() < 0.5:
        return False
    return made.chance.choice(possible)(made)


def _give(made: Repairable) -> bool:
    """Records in place of some that were refused; their file may be gone, or overwritten."""
    path = _one_of(made, (path for path, numbers in made.refused.items() if numbers))
    if path is None:
        return False
    numbers = sorted(made.chance.sample(made.refused[path], made.chance.randint(1, len(made.refused[path]))))
    texts = {number: json.dumps({"id": f"given {number}", "amount": number}) for number in numbers}
    records = [GivenRecord(line, "", path, "", number, text) for line, (number, text) in enumerate(texts.items(), 1)]

    def wish(parts: SourceParts) -> Wish:
        return from_given(parts.state, parts.identity.state_prefix, parts.identity.source_id, records, {})

    _carry_out(made, wish)
    made.rows[path] += len(numbers)
    made.refused[path] = [number for number in made.refused[path] if number not in numbers]
    made.counts[GIVEN] += 1
    return True


def _read_records(made: Repairable) -> bool:
    """Refused records, which another configuration accepts."""
    path = _one_of(made, (path for path in _committed(made) if made.refused.get(path)))
    if path is None:
        return False
    with _settings(made, schema=LOOSE):
        _carry_out(made, _letters_of(path))
    made.rows[path] += len(made.refused[path])
    made.refused[path] = ()
    made.counts[REPLAYED] += 1
    return True


def _read_files(made: Repairable) -> bool:
    """A file that a limit refused, without the limit."""
    path = _one_of(made, (path for path in made.too_long if made.fates.get(path) == "dead_lettered"))
    if path is None:
        return False
    with _settings(made, limits={}):
        _carry_out(made, _letters_of(path))
    made.fates[path] = "committed"
    made.rows[path] = made.good[path]
    made.counts[FILES] += 1
    return True


def _replace(made: Repairable) -> bool:
    """A file as it is: what was given in place of its records is gone then."""
    path = _one_of(made, (path for path in _committed(made) if path not in made.too_long))
    if path is None:
        return False
    _carry_out(made, lambda parts: Wish([Item(Kind.REPLACE, path)]))
    made.rows[path], made.refused[path] = made.good[path], made.bad[path]
    made.deleted.pop(path, None)
    made.counts[REPLACED] += 1
    return True


def _rebuild(made: Repairable) -> bool:
    """For want of something to repair it changes nothing."""
    copy = made.world.lake / IDENTITY.copy_key
    if not copy.is_file():
        return False
    if made.chance.random() < 0.7:
        copy.unlink()
        made.counts[REBUILT] += 1
    assert made.world.rebuild() == 0
    return True


def _carry_out(made: Repairable, wish_of: Callable[[SourceParts], Wish]) -> None:
    if made.chance.random() < 0.3:
        with unavailable(made.chance.randint(1, 8)), suppress(BlizzardError):
            made.world.repair(wish_of)
        made.counts[REPEATED] += 1
    results = made.world.repair(wish_of)
    assert all(result.fate in (Fate.DONE, Fate.IN_ALREADY, Fate.SUPERSEDED) for result in results), results


def _letters_of(path: str) -> Callable[[SourceParts], Wish]:
    wanted = LetterFilter(lambda each: each == path, frozenset(), None, 0.0, float("inf"))
    return lambda parts: from_letters(parts.state, parts.identity.state_prefix, parts.identity.source_id, wanted)


def _committed(made: Repairable) -> Iterator[str]:
    return (path for path, fate in made.fates.items() if fate == "committed")


def _one_of(made: Repairable, paths: Iterator[str]) -> str | None:
    found = sorted(paths)
    return made.chance.choice(found) if found else None


@contextmanager
def _settings(made: Repairable, **changed: Any) -> Iterator[None]:
    before = made.world.settings
    made.world.settings = {**before, **changed}
    try:
        yield
    finally:
        made.world.settings = before
