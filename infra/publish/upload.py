"""Uploads artifacts to content-addressed keys, and fetches them."""

import hashlib
from dataclasses import dataclass

from blizzard.errors import AlreadyExists, NotFound
from blizzard.storage.base import ObjectStore
from infra.publish.errors import PublishError


@dataclass(frozen=True, slots=True)
class Uploaded:
    key: str
    """Relative to the published location."""
    size_bytes: int
    is_new: bool
    """False: it existed with the same content."""


def upload(store: ObjectStore, key: str, content: bytes) -> Uploaded:
    """Never overwrites. Raises PublishError when the key has other content, and the store's errors."""
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
    """Raises PublishError when the artifact is missing or has changed."""
    try:
        content = store.get(key)
    except NotFound as error:
        raise PublishError(
            f"{store.uri}{key}: expected an artifact of the release, found no such object; "
            "publish again from the code of that release"
        ) from error
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise PublishError(f"{store.uri}{key}: expected sha256 {sha256}, found {found}; delete it and publish again")
    return content


def _holds(store: ObjectStore, key: str, content: bytes, etag: str) -> bool:
    """An S3 etag is the content's MD5, except after a multipart upload or with KMS; then the object has to be read."""
    if etag == hashlib.md5(content, usedforsecurity=False).hexdigest():
        return True
    return store.get(key) == content


def _occupied(store: ObjectStore, key: str, content: bytes) -> PublishError:
    expected = hashlib.sha256(content).hexdigest()
    return PublishError(
        f"{store.uri}{key}: expected nothing, or an object with sha256 {expected}; found other content, which "
        "was not published. Delete it and publish again"
    )
