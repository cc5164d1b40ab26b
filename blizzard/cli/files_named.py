"""The files and folders that `blizzard files` is given by name, of which it answers whatever the limit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from blizzard.audit.lives import Life


def is_plain(path: str) -> bool:
    """Whether it is a path or a folder, and no pattern."""
    return bool(path) and not {*path} & {*"*?[{"}


def may_be_name(path: str) -> bool:
    """Whether it means few files if it is a pattern, so that one of this name is worth looking for."""
    return bool(path) and not {*path} & {*"*?"}


@dataclass(slots=True)
class Named:
    """`given`: paths of one source, folders (with / at the end) and patterns. `met`: paths that there are, of each that
    is named at least one. `is_cut`: whether the limit ended the answer, and there may be more."""

    given: Sequence[str]
    met: set[str] = field(default_factory=set)
    is_cut: bool = False
    _open: set[str] = field(init=False)
    """What was named, and has not come yet."""

    def __post_init__(self) -> None:
        self._open = {path for path in self.given if may_be_name(path)}

    def limited(self, lives: Iterable[Life], wants: Callable[[Life], bool], limit: int) -> Iterator[Life]:
        """Those that it `wants`: at most so many (0: all), and then those files that are named. Each path comes once.
        What is named and comes is met, wanted or not."""
        count = 0
        for life in lives:
            is_named = self._meets(life.path)
            if wants(life):
                if limit and count >= limit and not is_named:
                    self.is_cut = True
                else:
                    yield life
                    count += 1
            if limit and count >= limit and not self._open:
                self.is_cut |= not self._are_files
                return

    @property
    def _are_files(self) -> bool:
        """Whether nothing but files is given, which all come whatever the limit."""
        return bool(self.given) and all(is_plain(path) and not path.endswith("/") for path in self.given)

    def look_up(self, first_below: Callable[[str], Life | None]) -> None:
        """What is named, and did not come among the others. `first_below`: the first file whose path begins so."""
        for name in sorted(self._open):
            if (life := first_below(name)) is not None:
                self._meets(life.path)

    def _meets(self, path: str) -> bool:
        """Whether it is named itself."""
        meant = {name for name in self._open if name == path or (name.endswith("/") and path.startswith(name))}
        if meant:
            self._open -= meant
            self.met.add(path)
        return path in meant
