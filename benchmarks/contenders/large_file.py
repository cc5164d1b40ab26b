"""Blizzard's local engine with one large file, which it commits in parts."""

from typing import Any

from benchmarks.contenders import Work, blizzard_local

TITLE = blizzard_local.TITLE
UNSUPPORTED: dict[str, str] = {}
prepare = blizzard_local.prepare
opened = blizzard_local.opened


def commits(work: Work, answer: dict[str, Any]) -> int:
    """As many as the job says. Which parts a file is committed in is up to it."""
    committed: int = answer["totals"]["commits"]
    return committed
