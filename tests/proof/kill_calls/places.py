"""Between which calls somebody has died, of those that lives of his kind make."""

from collections import Counter
from collections.abc import Iterable

MANY = 50
"""Lives that came to their end and made a call, after which one must have died before it, and one after it."""


class Places:
    """A place is before or after the calls of one name, in lives of one kind."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        """Kind of life and name of a call, in so many lives that came to their end."""
        self._died: set[tuple[str, str, bool]] = set()

    @property
    def killed_at(self) -> int:
        return len(self._died)

    def saw(self, who: str, names: Iterable[str]) -> None:
        """A life that came to its end has made these calls."""
        self._seen.update((who, name) for name in names)

    def died(self, who: str, name: str, *, after: bool) -> None:
        self._died.add((who, name, after))

    def spared(self, who: str) -> list[tuple[str, bool]]:
        """Calls of this kind of life before or after (True) which nobody has died so far."""
        names = sorted(name for kind, name in self._seen if kind == who)
        return [(name, after) for name in names for after in (False, True) if (who, name, after) not in self._died]

    @property
    def spared_of_many(self) -> list[str]:
        """In words."""
        return [
            f"{'after' if after else 'before'} {name} of a {who}"
            for who, name in sorted(self._seen)
            for after in (False, True)
            if self._seen[who, name] >= MANY and (who, name, after) not in self._died
        ]
