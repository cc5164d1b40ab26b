"""The real job, broken on purpose: its commits whose answers are lost."""

from collections.abc import Callable, Mapping
from typing import Any

from blizzard.errors import AlreadyExists, CommitOutcomeUnknown, LostRace
from blizzard.state.delta_log import commit_version
from blizzard.state.schema_changes import SchemaChange
from blizzard.storage.base import ObjectInfo
from blizzard.storage.s3 import S3Store
from spark_job.loop.commit import BatchCommitter
from tests.proof.breaks import NO_LOOK
from tests.proof.kill.variants import retry_without_a_look

OWN_COMMIT = "a commit of one's own is taken for another's"


def own_commit_as_anothers() -> None:
    """No client recognises its commit, and the job does not look whose it is."""
    _recognise_no_commit()

    def commit(self: BatchCommitter, checkpoint: Any, batch: Any, change: SchemaChange | None = None) -> bool:
        text = self._source.encode(checkpoint)
        try:
            self._write(checkpoint, batch, change, text)
        except (LostRace, CommitOutcomeUnknown) as error:
            self._log("commit_unclear", source=self._identity.source_id, error=str(error)[:500])
            return False
        return self._landed(checkpoint, text) is True

    BatchCommitter.commit = commit  # type: ignore[method-assign]


def no_look() -> None:
    _recognise_no_commit()
    retry_without_a_look()


def _recognise_no_commit() -> None:
    """By the local engine's client, which compares what it wrote. From Spark's the proxy hides who wrote it."""
    whole = S3Store._existing_if_equal

    def existing(self: S3Store, key: str, data: bytes, refused: Any) -> ObjectInfo:
        if commit_version(key) is not None:
            raise AlreadyExists(f"{key}: another writer created this object first")
        return whole(self, key, data, refused)

    S3Store._existing_if_equal = existing  # type: ignore[method-assign]


OF_REAL_JOB: Mapping[str, Callable[[], None]] = {
    OWN_COMMIT: own_commit_as_anothers,
    NO_LOOK: no_look,
}
"""In these the proxy also hides who wrote a commit, so that Spark's client does not recognise its own either."""
