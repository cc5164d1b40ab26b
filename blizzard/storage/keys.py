"""What a key may be, and which folders a listing has to look into. Keys compare as text: the order of code points is
the order of their UTF-8 bytes."""

import re

from blizzard.errors import StorageError

MAX_KEY_BYTES = 1024
"""S3's limit, for the key as S3 sees it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_key(key: str, uri: str) -> None:
    """Raises StorageError for a key that no object storage can hold; `uri` is the root that it is relative to."""
    if not key:
        raise StorageError(f"an object below {uri} needs a key; found an empty one")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise StorageError(f"the key {key!a} below {uri} is not valid Unicode, so no storage can hold it") from error
    if size > MAX_KEY_BYTES:
        raise StorageError(f"a key below {uri} has {size} bytes, at most {MAX_KEY_BYTES} are possible: {key[:80]!a}…")


def is_plain(key: str) -> bool:
    """Whether the key reads as a relative path: no empty, `.` or `..` part, no control character.

    Others exist on S3, but obstore either refuses them or silently reads another object (`/a` and `a/` as `a`).
    """
    return is_relative_path(key) and not _CONTROL.search(key)


def is_relative_path(key: str) -> bool:
    """Whether a file below a folder can have this key."""
    return "\0" not in key and not {"", ".", ".."}.intersection(key.split("/"))


def folder_of(prefix: str) -> str:
    """The deepest folder that holds every key with this prefix: "" or something that ends in `/`."""
    return prefix[: prefix.rfind("/") + 1]


def may_hold(folder: str, prefix: str, start_after: str) -> bool:
    """Whether a key below `folder` (ends in `/`) can begin with `prefix` and be greater than `start_after`."""
    in_reach = folder.startswith(prefix) or prefix.startswith(folder)
    return in_reach and (folder > start_after or start_after.startswith(folder))
