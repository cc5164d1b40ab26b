"""The sizes of many files of a source, with as few requests as possible."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from blizzard.state.watermark import prefix_of, split_path
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

_PARALLEL_HEADS = 32
_OBJECTS_PER_FILE = 30
"""Objects that may be listed for each wanted file of a folder: a page of 1,000 takes as long as one HEAD, and HEADs run
in parallel."""
_FEW_FILES = 10
"""Up to this many files of a folder get a HEAD each, instead of a listing."""


class FileSizes:
    """Sizes in bytes of a source's files; files that are gone are left out. A folder is listed as long as that is
    faster than one HEAD for each file."""

    def __init__(self, files: ObjectStore) -> None:
        self._files = files

    def __call__(self, paths: Iterable[str]) -> Mapping[str, int]:
        folders: dict[str, set[str]] = {}
        for path in paths:
            folders.setdefault(split_path(path)[0], set()).add(path)
        sizes: dict[str, int] = {}
        with ParallelCalls(_PARALLEL_HEADS, name="sizes") as heads:
            for folder, wanted in folders.items():
                for path in self._list_folder(folder, wanted, sizes):
                    heads.submit(partial(self._head, path, sizes))
        return sizes

    def _list_folder(self, folder: str, wanted: Collection[str], sizes: dict[str, int]) -> list[str]:
        """List the folder from its first wanted file to its last. Returns those that still need a HEAD."""
        first, last = min(wanted), max(wanted)
        if len(wanted) <= _FEW_FILES:
            return [*wanted]
        listing = self._files.list(prefix_of(folder), start_after=first, recursive=False)
        for count, info in enumerate(listing):
            if info.key > last:
                break
            if count >= _OBJECTS_PER_FILE * len(wanted):
                return [first, *(path for path in wanted if path >= info.key)]
            if info.key in wanted:
                sizes[info.key] = info.size
        return [first]

    def _head(self, path: str, sizes: dict[str, int]) -> None:
        info = self._files.head(path)
        if info is not None:
            sizes[path] = info.size
