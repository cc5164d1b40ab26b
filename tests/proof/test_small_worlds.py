"""Every state of small worlds is sound, and a world that is broken on purpose is found."""

from functools import partial

import pytest

from tests.proof.explore import Found, explore, smallest
from tests.proof.small_worlds import Bounds, SmallWorld
from tests.proof.variants import VARIANTS


@pytest.mark.parametrize(
    ("bounds", "crashes"),
    [
        (Bounds(collectors=2, sweepers=0, jobs=1), 1),
        (Bounds(collectors=1, sweepers=1, jobs=1), 1),
        (Bounds(collectors=0, sweepers=1, jobs=2), 0),
    ],
    ids=str,
)
def test_every_state_is_sound(bounds: Bounds, crashes: int) -> None:
    explored = explore(partial(SmallWorld, bounds), crashes=crashes)
    assert explored.complete
    assert explored.states > 500
    assert explored.ends > 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_broken_on_purpose_is_found(variant: str) -> None:
    """Two collectors race for a segment's number, two jobs for a commit, and a sweeper's marks are consumed."""
    worlds = (Bounds(2, 0, 1), Bounds(1, 1, 1), Bounds(1, 0, 2))
    found = [smallest(partial(SmallWorld, bounds, VARIANTS[variant]), crashes=0, most_switches=2) for bounds in worlds]
    assert any(found), "nothing was found"
    assert all(error is None or error.steps for error in found)


def test_a_way_to_a_fault_can_be_read_and_gone_again() -> None:
    make = partial(SmallWorld, Bounds(2, 0, 0), VARIANTS["a segment is written by an unconditional PUT"])
    found = smallest(make, crashes=0)
    assert isinstance(found, Found)
    again = smallest(make, crashes=0)
    assert again is not None
    assert again.steps == found.steps
    assert any(step.startswith("collector 1: create _blizzard/events_landing/pending/") for step in found.steps)
