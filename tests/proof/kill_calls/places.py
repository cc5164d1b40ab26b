"""Before and after which calls a process has been killed, by kind of process."""

from collections import Counter
from collections.abc import Iterable

MANY = 50
"""After so many completed processes that made a call, one must have been killed before that call, and one after it."""


class Places:
    """A place is before or after the calls of one name, in processes of one kind."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        """Number of completed processes, by kind of process and name of a call that they made."""
        self._died: set[tuple[str, str, bool]] = set()

    @property
    def killed_at(self) -> int:
        return len(self._died)

    def saw(self, who: str, names: Iterable[str]) -> None:
        """Records the calls of a completed process."""
        self._seen.update((who, name) for name in names)

    def died(self, who: str, name: str, *, after: bool) -> None:
        self._died.add((who, name, after))

    def spared(self, who: str) -> list[tuple[str, bool]]:
        """Calls before or after (True) which no process of this kind has been killed so far."""
        names = sorted(name for kind, name in self._seen if kind == who)
        return [(name, after) for name in names for after in (False, True) if (who, name, after) not in self._died]

    @property
    def spared_of_many(self) -> list[str]:
        """Descriptions of the places of frequent calls where no process has been killed."""
        return [
            f"{'after' if after else 'before'} {name} of a {who}"
            for who, name in sorted(self._seen)
            for after in (False, True)
            if self._seen[who, name] >= MANY and (who, name, after) not in self._died
        ]
