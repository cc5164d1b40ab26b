"""Remembers what was made from which input, so that a second run has nothing to do."""

import hashlib
from pathlib import Path


def digest(*files: Path) -> str:
    """One sha256 over names and contents."""
    whole = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        whole.update(f"{file.name} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()


def is_stamped(stamp: Path, value: str) -> bool:
    try:
        return stamp.read_text() == value
    except FileNotFoundError:
        return False


def put_stamp(stamp: Path, value: str) -> None:
    """Written last and under its name only when whole: what was interrupted has no stamp and is made again."""
    partial = stamp.with_name(stamp.name + ".partial")
    partial.write_text(value)
    partial.replace(stamp)
