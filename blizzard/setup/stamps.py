"""Hashes of files, and stamp files that record the inputs of a result, so that a second run can skip it."""

import hashlib
from pathlib import Path


def digest(*files: Path) -> str:
    """One sha256 of names and contents."""
    total = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        total.update(f"{file.name} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def file_sha256(file: Path) -> str:
    """The sha256 of a file's content, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def is_stamped(stamp: Path, value: str) -> bool:
    try:
        return stamp.read_text() == value
    except FileNotFoundError:
        return False


def put_stamp(stamp: Path, value: str) -> None:
    """Call last. Written atomically: an interrupted step has no stamp and runs again."""
    partial = stamp.with_name(stamp.name + ".partial")
    partial.write_text(value)
    partial.replace(stamp)
