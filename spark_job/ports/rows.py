"""The rows of a batch, between reading and committing."""

from typing import Protocol


class Rows(Protocol):
    """The rows of a batch: read, and held until they are committed or discarded. A table commits only the rows of a
    reader that belongs to it; the type parameters of `Table` and `Reader` say which."""

    @property
    def write_share(self) -> float:
        """Share (0 to 1) of the tasks' time that went into writing."""
        ...

    def release(self) -> None:
        """Free what the rows hold. Called once, whether they were committed or not."""
        ...
