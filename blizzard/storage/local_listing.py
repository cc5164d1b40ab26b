"""Listing a local directory in key order."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blizzard.log import Log
from blizzard.storage.base import ObjectInfo
from blizzard.storage.keys import may_contain
from blizzard.storage.local_errors import ABSENT, translate_os_errors, translated
from blizzard.storage.local_files import TEMPORARY, describe


@dataclass(slots=True)
class LocalListing:
    """Lists the files below `root`. `check_root` is called for a folder that does not exist. Objects that cannot be
    listed are logged to `log`, each once, since a source is listed again and again."""

    root: Path
    uri: str
    check_root: Callable[[], None]
    log: Log
    _skipped: set[str] = field(default_factory=set)

    def files(self, folder: str, prefix: str, start_after: str, *, recursive: bool) -> Iterator[ObjectInfo]:
        """The files in `folder` ("" or ending in `/`) whose key begins with `prefix` and is after `start_after`."""
        pending = [self.children(folder, prefix, start_after)]
        while pending:
            found = next(pending[-1], None)
            if found is None:
                pending.pop()
                continue
            key, entry = found
            if key.endswith("/"):
                if recursive:
                    pending.append(self.children(key, prefix, start_after))
            elif (info := self._info(key, entry)) is not None:
                yield info

    def children(self, folder: str, prefix: str, start_after: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Files, and folders with a `/` at the end, in key order, as far as the listing may need them. No stat calls.

        The `/` has to be there when names are sorted: `a-b` comes before `a/c`, though folder `a` sorts before it.
        """
        with translate_os_errors(f"list {self.uri}{folder}"):
            try:
                with os.scandir(self.root / folder) as entries:
                    keys = ((self._key(folder, entry, prefix, start_after), entry) for entry in entries)
                    found = [(key, entry) for key, entry in keys if key is not None]
            except ABSENT:
                self.check_root()
                return
        found.sort(key=lambda pair: pair[0])
        yield from found

    def _key(self, folder: str, entry: os.DirEntry[str], prefix: str, start_after: str) -> str | None:
        """None if the listing does not need the entry."""
        key = folder + entry.name
        if entry.name.startswith(TEMPORARY):
            return None
        if entry.is_dir(follow_symlinks=False):
            key += "/"
            needed = may_contain(key, prefix, start_after)
        else:
            needed = key > start_after and key.startswith(prefix)
        return key if needed and self._is_utf8(key) else None

    def _is_utf8(self, key: str) -> bool:
        if key.isascii():
            return True
        try:
            key.encode()
        except UnicodeEncodeError:
            self._log_skipped(key, "the name is not valid UTF-8")
            return False
        return True

    def _info(self, key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
        """None for a file that was deleted meanwhile, and for anything but a regular file."""
        try:
            status = entry.stat(follow_symlinks=False)
        except ABSENT:
            return None
        except OSError as error:
            raise translated(error, f"list {self.uri}{key}") from error
        if stat.S_ISREG(status.st_mode):
            return describe(key, status)
        is_link = stat.S_ISLNK(status.st_mode)
        self._log_skipped(key, "symbolic links are not followed" if is_link else "it is not a regular file")
        return None

    def _log_skipped(self, key: str, reason: str) -> None:
        if key not in self._skipped:
            self._skipped.add(key)
            printable = key.encode(errors="backslashreplace").decode()
            self.log("object_skipped", uri=self.uri, key=printable, reason=reason)
