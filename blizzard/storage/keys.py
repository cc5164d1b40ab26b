"""Which keys are valid, and which folders a listing has to read. Keys compare as text, since the order of code points
is the order of their UTF-8 bytes."""

import re

from blizzard.errors import StorageError

MAX_KEY_BYTES = 1024
"""S3's limit, for the full key in the bucket."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_key(key: str, uri: str) -> None:
    """Raises StorageError for a key that no object storage can hold. `uri`: the root of the key, for the error text."""
    if not key:
        raise StorageError(f"expected the key of an object below {uri}, found an empty one; name the object")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise StorageError(
            f"the key {key!a} below {uri} is not valid Unicode, so no storage can hold it; use another name"
        ) from error
    if size > MAX_KEY_BYTES:
        raise StorageError(
            f"a key below {uri} has {size} bytes, expected at most {MAX_KEY_BYTES}; use a shorter name: {key[:80]!a}…"
        )


def is_plain(key: str) -> bool:
    """Whether the key is a relative path: no empty, `.` or `..` part, no control character.

    S3 allows other keys too, but obstore either refuses them or silently reads another object (`/a` and `a/` as `a`).
    """
    return is_relative_path(key) and not _CONTROL.search(key)


def is_relative_path(key: str) -> bool:
    """Whether a file in a local folder can have this key."""
    return "\0" not in key and not {"", ".", ".."}.intersection(key.split("/"))


def parent_folder(prefix: str) -> str:
    """The deepest folder that contains every key with this prefix: "" or ending in `/`."""
    return prefix[: prefix.rfind("/") + 1]


def may_contain(folder: str, prefix: str, start_after: str) -> bool:
    """Whether some key below `folder` (which ends in `/`) can begin with `prefix` and be greater than `start_after`."""
    in_reach = folder.startswith(prefix) or prefix.startswith(folder)
    return in_reach and (folder > start_after or start_after.startswith(folder))
