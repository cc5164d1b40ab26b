"""Every error that Blizzard raises on purpose. Routing is by type, never by text."""


class BlizzardError(Exception):
    """Root of them all. The text says what happened, what was expected, and what to do next."""


class RetryableError(BlizzardError):
    """The same call may succeed later, unchanged."""


class PermanentError(BlizzardError):
    """The same call will fail again until somebody changes something."""


class CommitOutcomeUnknown(BlizzardError):
    """A commit was sent and no answer came. Look at the table's Txn version before anything else."""


class LostRace(RetryableError):
    """Another job committed a batch of the same source first. Recover and plan anew."""


class ConfigError(PermanentError):
    """The configuration is wrong. `problems` lists everything that is, not just the first."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class RecoveryError(PermanentError):
    """The table does not hold what is needed to go on without losing or doubling rows."""


class UnreadableState(PermanentError):
    """A checkpoint or a segment that is not what it should be: torn, foreign, or of a newer version."""


class StorageError(PermanentError):
    """Storage refused for a reason that waiting does not cure."""


class NotFound(StorageError):
    """There is no such object."""


class AlreadyExists(StorageError):
    """A conditional create found an object there that somebody else wrote."""


class AccessDenied(StorageError):
    """The credentials in use do not allow this call."""


class CredentialsRefused(AccessDenied):
    """The credentials themselves are missing, expired or unknown: no object is at fault."""


class KeyUnusable(AccessDenied):
    """The KMS key of an object is disabled, deleted or not to be used: the object itself is not at fault."""


class BucketMissing(StorageError):
    """The bucket, or for a local store the root folder, does not exist."""


class StorageBroken(StorageError):
    """A disk that fails, or a set-up with which no request can succeed: no object is at fault."""


class StorageFull(StorageError):
    """There is no room left to write to."""


class StorageUnavailable(RetryableError):
    """Storage throttled, timed out or answered 5xx until the retries were used up."""
