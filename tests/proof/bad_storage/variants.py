"""The real job, broken on purpose: its commits whose answers are lost."""

from collections.abc import Callable, Mapping
from typing import Any

from blizzard.errors import CommitOutcomeUnknown, LostRace
from blizzard.state.schema_changes import SchemaChange
from spark_job.loop.commit import BatchCommitter
from tests.proof.breaks import NO_LOOK
from tests.proof.kill.variants import retry_without_a_look

OWN_COMMIT = "a commit of one's own is taken for another's"


def own_commit_as_anothers() -> None:
    """Of the local engine, whose client does not recognise its commit: the job does not look whose it is. Of Spark the
    proxy hides who wrote a commit."""

    def commit(self: BatchCommitter, checkpoint: Any, batch: Any, change: SchemaChange | None = None) -> bool:
        text = self._source.encode(checkpoint)
        try:
            self._write(checkpoint, batch, change, text)
        except (LostRace, CommitOutcomeUnknown) as error:
            self._log("commit_unclear", source=self._identity.source_id, error=str(error)[:500])
            return False
        return self._landed(checkpoint, text) is True

    BatchCommitter.commit = commit  # type: ignore[method-assign]


OF_REAL_JOB: Mapping[str, Callable[[], None]] = {
    OWN_COMMIT: own_commit_as_anothers,
    NO_LOOK: retry_without_a_look,
}
"""In these the proxy also hides who wrote a commit, so that Spark's client does not recognise its own either."""
