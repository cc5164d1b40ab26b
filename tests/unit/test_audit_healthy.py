"""No false alarm: random worlds without a fault. `make prove PROVE=audit` tries a thousand."""

from pathlib import Path

import pytest

from tests.unit.healthy_worlds import healthy_world

WORLDS = 12


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_healthy_world_gives_no_alarm(seed: int, tmp_path: Path) -> None:
    healthy_world(tmp_path, seed).live(rounds=3)
