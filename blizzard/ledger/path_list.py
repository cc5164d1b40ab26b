"""A list of paths in one piece of memory: an index has one for each block, a quarter of a million for 10^8 files."""

from array import array
from collections.abc import Iterable, Sequence
from typing import overload


class PathList(Sequence[str]):
    """Takes half the memory of a list of texts. An item costs a microsecond to read."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._text = bytearray()
        self._ends = array("Q", [0])
        for path in paths:
            self.append(path)

    def append(self, path: str) -> None:
        self._text += path.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._text))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        return self._text[self._ends[at] : self._ends[at + 1]].decode("utf-8", "surrogatepass")

    def __repr__(self) -> str:
        return f"PathList({len(self)} paths)"
