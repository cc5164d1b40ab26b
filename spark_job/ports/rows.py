"""The rows of a batch, between reading and committing."""

from typing import Protocol


class Rows(Protocol):
    """The rows of a batch, from reading until they are committed or discarded. A table can commit only the rows that
    its own kind of reader returns; `Table` and `Reader` then have the same type parameter."""

    @property
    def write_share(self) -> float:
        """Share (0 to 1) of the tasks' time that went into writing."""
        ...

    def discard(self) -> None:
        """Delete what was written of them, since they will not be committed. Best effort: what stays costs only
        space."""
        ...

    def release(self) -> None:
        """Free memory and staged files. Called once, whether or not the rows were committed."""
        ...
