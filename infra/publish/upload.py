"""Puts artifacts where they are named by their content, and looks whether they are there already."""

import hashlib
from dataclasses import dataclass

from blizzard.errors import AlreadyExists, NotFound
from blizzard.storage.base import ObjectStore
from infra.publish.errors import PublishError


@dataclass(frozen=True, slots=True)
class Uploaded:
    key: str
    """Relative to where artifacts are published."""
    size_bytes: int
    is_new: bool
    """False: it was there, with the same content."""


def upload(store: ObjectStore, key: str, content: bytes) -> Uploaded:
    """Never overwrites. Raises PublishError when the key holds something else, and what the store raises."""
    known = store.head(key)
    if known is not None:
        if not _holds(store, key, content, known.etag):
            raise _occupied(store, key, content)
        return Uploaded(key, len(content), is_new=False)
    try:
        store.create(key, content)
    except AlreadyExists as error:
        raise _occupied(store, key, content) from error
    return Uploaded(key, len(content), is_new=True)


def fetch(store: ObjectStore, key: str, sha256: str) -> bytes:
    """Raises PublishError when it is not there, or is not what it was."""
    try:
        content = store.get(key)
    except NotFound as error:
        raise PublishError(f"{store.uri}{key}: there is no such artifact; was it deleted?") from error
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise PublishError(f"{store.uri}{key}: expected sha256 {sha256}, found {found}; delete it and publish again")
    return content


def _holds(store: ObjectStore, key: str, content: bytes, etag: str) -> bool:
    """S3's etag is the MD5 of what was put at once and is not encrypted by KMS; else the object has to be read."""
    if etag == hashlib.md5(content, usedforsecurity=False).hexdigest():
        return True
    return store.get(key) == content


def _occupied(store: ObjectStore, key: str, content: bytes) -> PublishError:
    expected = hashlib.sha256(content).hexdigest()
    return PublishError(
        f"{store.uri}{key}: expected nothing, or an object with sha256 {expected}; found another content, which "
        "somebody put there by hand. Delete it and publish again"
    )
