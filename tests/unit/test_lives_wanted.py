"""Questions about some of the files: the answers are those of a look at every file, and others are not looked at."""

import random

import pytest

from blizzard.audit import lives
from blizzard.ledger import run
from blizzard.storage.memory import MemoryStore
from tests.unit.lives_world import BEGIN_TS, GLOBS, LivesWorld, random_wish, wants

SEEDS = range(100)


@pytest.fixture(params=[1, 5], ids=lambda count: f"blocks of {count}")
def block_entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(run, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(lives, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(lives, "MOST_BLOCKS", 4)
    monkeypatch.setattr(lives, "AT_ONCE", 2)
    return int(request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answers_are_those_of_a_look_at_every_file(seed: int, block_entries: int) -> None:
    chance = random.Random(seed)
    world = LivesWorld(chance, MemoryStore(lambda: BEGIN_TS))
    for _ in range(6):
        glob = chance.choice([*[None] * len(GLOBS), *GLOBS])
        prefix = chance.choice(["", "", "", "", "", "", "", "a", "a/", "b/", "d/*", "é", "\uffff", "nothing"])
        wish, asked = random_wish(chance, glob), world.lives(glob, prefix)
        expected = [life for life in asked if wants(wish)(life)]
        listed = asked.listed
        assert [life for life in asked.wanted(wish) if wants(wish)(life)] == expected
        assert asked.listed == listed
