"""The last commit of a source into a table whose place another one takes, and the first after it went back."""

from collections.abc import Callable
from dataclasses import replace

from blizzard.errors import LostRace, RecoveryError, RetryableError
from spark_job.rebuild.parts import Parts

ATTEMPTS = 50
"""A job that commits meanwhile reads a batch for each of its commits, which takes longer than this one."""
PAUSE_SECS = 0.2


def move(parts: Parts, to: str | None, *, sleep: Callable[[float], None]) -> bool:
    """Commits that the table of `to` has taken this one's place, after which no job commits to this one; None: that
    this one counts again. Returns whether that took a commit. Raises RecoveryError if the table was moved elsewhere,
    LostRace if other jobs commit all the time.
    """
    for _ in range(ATTEMPTS):
        keeper = parts.keeper()
        recovered = parts.recovered(keeper, moved=True)
        checkpoint = recovered.checkpoint
        if checkpoint.moved_to == to:
            return False
        if to is not None and checkpoint.moved_to is not None:
            raise RecoveryError(
                f"another table has taken the place of this one already: {checkpoint.moved_to}, of source "
                f"{parts.source_id}. Expected none, or {to}. Change `table_uri` to {checkpoint.moved_to}, and move "
                "that one."
            )
        if recovered.repaired:
            checkpoint = replace(checkpoint, ledger=keeper.refs(checkpoint))
        parts.state.release()
        try:
            if parts.commit(replace(checkpoint, moved_to=to)):
                return True
        except RetryableError:
            pass
        sleep(PAUSE_SECS)
    raise LostRace(
        f"other jobs of source {parts.source_id} have committed first {ATTEMPTS} times in a row. Nothing is lost: "
        "start the command again, or stop these jobs before."
    )
