"""Lets the JVM forget what Python no longer uses of it."""

import gc

USES_BETWEEN_COLLECTIONS = 32
"""So many transactions and snapshots of Delta, 10 MiB, may wait. A collection takes 0.05 s."""


class JavaReferences:
    """py4j's objects refer to themselves, so that only a full collection of Python frees them, and what they hold in
    the JVM. Python makes one after hundreds of commits: 40 MiB of the JVM's heap."""

    def __init__(self) -> None:
        self._uses = 0

    def count_use(self) -> None:
        """Call it before Python gets a transaction or a snapshot of a table."""
        self._uses += 1
        if self._uses >= USES_BETWEEN_COLLECTIONS:
            self._uses = 0
            gc.collect()
