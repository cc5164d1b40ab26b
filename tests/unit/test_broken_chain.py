"""Of a chain of receipts with one that cannot be read: the commits in the log name those before it, so that only its
own commit is asked of the table, which does not know what its users have deleted."""

import pytest

from blizzard.state.run_ref import SequenceRange
from tests.unit.ledger_world import FOLDER, RECEIPTS, LedgerWorld, filled


def without_ledger_and_receipts_of(lost: set[int]) -> LedgerWorld:
    """Of twelve commits; a user has deleted the rows of all."""
    world = filled(12, LedgerWorld(log_is_read=True))
    world.table.clear()
    world.store.delete([info.key for info in world.store.list(FOLDER)])
    receipts = [info.key for info in world.store.list(RECEIPTS)]
    world.store.delete([key for key in receipts if int(key.removeprefix(RECEIPTS)[:20]) in lost])
    return world


@pytest.mark.parametrize("lost", [{11}, {5}, {0}, {4, 5, 9}])
def test_of_a_broken_chain_the_log_names_the_receipts_before_the_lost_ones(lost: set[int]) -> None:
    world = without_ledger_and_receipts_of(lost)
    kept = world.found(world.keeper()).keys()
    assert sorted(n for asked in world.asked for n in range(asked.first, asked.last + 1)) == sorted(lost)
    assert kept == {"again", *(f"f{n}" for n in range(12) if n not in lost)}


def test_commits_that_the_log_no_longer_has_are_asked_of_the_table() -> None:
    world = without_ledger_and_receipts_of({5})
    del world.delta_log[-5:]
    world.found(world.keeper())
    assert world.asked == [SequenceRange(0, 5)]
