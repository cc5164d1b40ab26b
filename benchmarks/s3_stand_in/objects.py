"""The objects of a bucket: files below a folder, with an index in memory, sorted by key."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from time import time


class Exists(Exception):
    """The key of a conditional write already exists."""


@dataclass(frozen=True, slots=True)
class Object:
    """`file` is None for an empty object, such as a folder marker, whose name cannot be a file name."""

    size: int
    etag: str
    modified_ts: float
    file: str | None
    meta: dict[str, str] = field(default_factory=dict)

    def read(self, start: int, stop: int) -> bytes:
        if self.file is None:
            return b""
        with open(self.file, "rb", buffering=0) as file:  # noqa: PTH123 - half the time of Path.open
            file.seek(start)
            return file.read(stop - start)


def _stored(path: Path) -> Object:
    found = path.stat()
    return Object(found.st_size, f"{found.st_mtime_ns:x}-{found.st_size:x}", found.st_mtime, str(path))


class Bucket:
    """The files in the folder when it is opened, and objects that are written later."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._uploads = 0
        self._parts: dict[str, dict[int, bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.objects: dict[str, Object] = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                self.objects[path.relative_to(folder).as_posix()] = _stored(path)
        self._keys = sorted(self.objects, key=str.encode)

    def adopt(self, keys: Sequence[str]) -> list[Object]:
        """Files that somebody has put into the folder under these new keys."""
        found = [_stored(self._folder / key) for key in keys]
        self.objects.update(zip(keys, found, strict=True))
        self._keys = sorted([*self._keys, *keys], key=str.encode)
        return found

    def put(self, key: str, body: bytes, meta: dict[str, str], *, create: bool) -> Object:
        """Raises Exists if `create` is set and the key exists. Check and write are atomic, because there is only one
        thread."""
        if key not in self.objects:
            self._keys.insert(bisect_left(self._keys, key.encode(), key=str.encode), key)
        elif create:
            raise Exists(key)
        file: Path | None = None
        if body:
            file = self._folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        etag = md5(body, usedforsecurity=False).hexdigest()
        made = self.objects[key] = Object(len(body), etag, time(), None if file is None else str(file), meta)
        return made

    def delete(self, key: str) -> None:
        gone = self.objects.pop(key, None)
        if gone is not None:
            del self._keys[bisect_left(self._keys, key.encode(), key=str.encode)]
            if gone.file is not None:
                Path(gone.file).unlink(missing_ok=True)

    def listed(self, prefix: str, delimiter: str, after: str) -> Iterator[tuple[str, Object | None]]:
        """Keys greater than `after`, in order, with their objects. With a delimiter also common prefixes, with None."""
        index = max(
            bisect_left(self._keys, prefix.encode(), key=str.encode),
            bisect_right(self._keys, after.encode(), key=str.encode),
        )
        while index < len(self._keys) and self._keys[index].startswith(prefix):
            key = self._keys[index]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                yield key, self.objects[key]
                index += 1
                continue
            common = key[: cut + len(delimiter)]
            if common > after:
                yield common, None
            behind = common.encode()[:-1] + bytes([common.encode()[-1] + 1])
            index = bisect_left(self._keys, behind, key=str.encode)

    def begin_upload(self) -> str:
        self._uploads += 1
        self._parts[f"upload-{self._uploads}"] = {}
        return f"upload-{self._uploads}"

    def put_part(self, upload: str, number: int, body: bytes) -> str:
        self._parts[upload][number] = body
        return md5(body, usedforsecurity=False).hexdigest()

    def complete(self, upload: str, key: str, meta: dict[str, str], *, create: bool) -> Object:
        parts = self._parts[upload]
        made = self.put(key, b"".join(parts[number] for number in sorted(parts)), meta, create=create)
        del self._parts[upload]
        return made

    def abort(self, upload: str) -> None:
        self._parts.pop(upload, None)
