"""Every error that Blizzard raises on purpose. Callers handle errors by type, never by text. Logs show the type's
name."""


class BlizzardError(Exception):
    """The text says what happened, what was expected, and what to do next."""


class RetryableError(BlizzardError):
    """The same call may succeed later, unchanged."""


class PermanentError(BlizzardError):
    """The same call fails again until configuration, data or permissions change."""


class CommitOutcomeUnknown(BlizzardError):
    """A commit was sent and no answer came. Check the table's Txn version before retrying."""


class NeverAnswered(RetryableError):
    """A service has not answered this process once. It may be about to start, or its address is wrong."""


class DataFileDamaged(RetryableError):
    """A data file of the table cannot be read. It may be restored."""


class LostRace(RetryableError):
    """Another job committed a batch of the same source first. Recover and plan again."""


class ConfigError(PermanentError):
    """The configuration is wrong. `problems` lists every problem, not just the first."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetupError(PermanentError):
    """Something is missing on the machine or in the network. The text says how to get it."""


class RecoveryError(PermanentError):
    """The table does not hold what is needed to continue without losing or doubling rows."""


class TxnLost(RecoveryError):
    """The table holds rows of a source, but no Txn that says which commit was the last."""


class TableMoved(RecoveryError):
    """Another table has taken this one's place."""


class UnreadableState(PermanentError):
    """A checkpoint, segment or record is damaged, belongs to another source, or has a newer format."""


class LogDamaged(UnreadableState):
    """The table's own log lacks a commit, or has one that cannot be read. No run repairs it."""


class StorageError(PermanentError):
    """Storage refused a call, and waiting does not help."""


class NotFound(StorageError):
    """The object does not exist."""


class NoSuchBytes(StorageError):
    """The object ends before the bytes that were asked for."""


class AlreadyExists(StorageError):
    """A conditional create found an object that another writer created."""


class AccessDenied(StorageError):
    """The credentials in use do not allow this call."""


class CredentialsRefused(AccessDenied):
    """The credentials are missing, expired or unknown: a systemic failure, not one of the object."""


class KeyUnusable(AccessDenied):
    """The KMS key of an object is disabled, deleted or not permitted: not a failure of the object itself."""


class BucketMissing(StorageError):
    """The bucket, or for a local store the root folder, does not exist."""


class StorageBroken(StorageError):
    """A disk fails, or no request can succeed with this set-up: a systemic failure, not one of the object."""


class StorageFull(StorageError):
    """The disk or quota is full."""


class StorageUnavailable(RetryableError):
    """Storage throttled, timed out or answered 5xx until the retries were used up."""
