"""A ledger that is merged all the time, and checkpoints that name bases, in the processes of a campaign: some commits
are enough for what takes days, and some folders for what takes thousands."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from blizzard.ledger import keeper, run
from blizzard.ledger.merge import LedgerSettings
from blizzard.state.checkpoint_codec import BaseSettings

KEPT_SECS = 1.0
"""So runs are deleted while others still read them."""
BLOCK_ENTRIES = 4


def keep_ledger_small(rng: random.Random, *, bases: bool = True) -> None:
    """From now on, in this process. `bases`: also what checkpoints have without one."""
    in_background = rng.random() < 0.5
    small = {"commits": rng.choice((2, 3)), "files": 12, "factor": 2, "in_background": in_background}
    LedgerSettings.__init__.__kwdefaults__.update(small)
    keeper.KEPT_SECS = keeper.KEPT_AFTER_RESTART_SECS = KEPT_SECS
    run.BLOCK_ENTRIES = BLOCK_ENTRIES
    run._SMALL_RUN_FILES = rng.choice((0, 100_000))  # 0: also small runs are written in several calls
    if bases:
        BaseSettings.__init__.__defaults__ = (rng.choice((0, 60, 8_192)), 3)  # type: ignore[misc]


@contextmanager
def small_ledger(rng: random.Random) -> Iterator[None]:
    """For the block, where a campaign runs in a process with other tests."""
    usual = dict(LedgerSettings.__init__.__kwdefaults__)
    times = keeper.KEPT_SECS, keeper.KEPT_AFTER_RESTART_SECS
    sizes = run.BLOCK_ENTRIES, run._SMALL_RUN_FILES
    usual_bases = BaseSettings.__init__.__defaults__
    keep_ledger_small(rng)
    try:
        yield
    finally:
        LedgerSettings.__init__.__kwdefaults__.update(usual)
        keeper.KEPT_SECS, keeper.KEPT_AFTER_RESTART_SECS = times
        run.BLOCK_ENTRIES, run._SMALL_RUN_FILES = sizes
        BaseSettings.__init__.__defaults__ = usual_bases
