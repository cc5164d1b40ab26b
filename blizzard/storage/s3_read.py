"""Reading an S3 object in pieces: a download that breaks off goes on where it stopped, in the very same version."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from blizzard.errors import AccessDenied, CredentialsRefused, NotFound, StorageError
from blizzard.log import first_line
from blizzard.storage.base import ObjectInfo
from blizzard.storage.keys import is_plain
from blizzard.storage.retry import Retry, TransientError
from blizzard.storage.s3_connection import S3Connection
from blizzard.storage.s3_errors import Call, PreconditionFailedError, translating


class Body(Protocol):
    """One answer to a GET."""

    @property
    def info(self) -> ObjectInfo: ...

    def chunk(self) -> bytes:
        """What comes next, b"" at the end. Raises TransientError."""
        ...

    def close(self) -> None: ...


class BotoBody:
    """The body of boto3's get_object."""

    def __init__(self, info: ObjectInfo, stream: Any, chunk_bytes: int, call: Call) -> None:
        self.info = info
        self._stream = stream
        self._chunk_bytes = chunk_bytes
        self._call = call

    def chunk(self) -> bytes:
        with translating(self._call):
            data: bytes = self._stream.read(self._chunk_bytes)
        return data

    def close(self) -> None:
        self._stream.close()


class BulkBody:
    """The body of obstore's get; in one piece if it is no longer than a chunk, which takes a third of the work."""

    def __init__(self, info: ObjectInfo, result: Any, chunk_bytes: int) -> None:
        self.info = info
        whole = info.size <= chunk_bytes
        self._chunks = _in_one_piece(result) if whole else iter(result.stream(min_chunk_size=chunk_bytes))

    def chunk(self) -> bytes:
        try:
            return bytes(next(self._chunks, b""))
        except _bulk_errors() as error:
            raise TransientError(_said(error)) from error

    def close(self) -> None:
        self._chunks = iter(())


def _in_one_piece(result: Any) -> Iterator[Any]:
    """Fetched when it is asked for, so that a failure is one of the reading."""
    yield result.bytes()


class Downloads:
    """Opens objects of one bucket; obstore first, since it is several times cheaper, and boto3 for whatever remains:
    keys that obstore cannot name, its refusals (boto3's are typed), every further attempt and every resumption."""

    def __init__(self, connection: S3Connection, bucket: str, chunk_bytes: int) -> None:
        self._connection = connection
        self._bucket = bucket
        self._chunk_bytes = chunk_bytes

    def start(self, key: str, full_key: str, call: Call, attempt: int) -> Body:
        if attempt == 1 and is_plain(full_key) and (body := self._bulk(key, full_key, call)) is not None:
            return body
        answer = self.get_object(full_key, call)
        return BotoBody(described(key, answer, answer["ContentLength"]), answer["Body"], self._chunk_bytes, call)

    def resume(self, info: ObjectInfo, full_key: str, call: Call, offset: int) -> Body:
        """Raises StorageError when the object is not the one that `info` describes any more."""
        try:
            answer = self.get_object(full_key, call, Range=f"bytes={offset}-", IfMatch=f'"{info.etag}"')
        except PreconditionFailedError as error:
            raise StorageError(
                f"{call}: the object was overwritten while it was read (expected etag {info.etag}). "
                "Read it again from its start."
            ) from error
        if not answer.get("ContentRange", "").startswith(f"bytes {offset}-"):
            raise StorageError(f"{call}: asked for the bytes from {offset} on, got {answer.get('ContentRange')!r}")
        return BotoBody(info, answer["Body"], self._chunk_bytes, call)

    def get_object(self, full_key: str, call: Call, **conditions: str) -> dict[str, Any]:
        with self.explaining(full_key, call), translating(call):
            client = self._connection.client
            answer: dict[str, Any] = client.get_object(Bucket=self._bucket, Key=full_key, **conditions)
        return answer

    @contextmanager
    def explaining(self, full_key: str, call: Call) -> Iterator[None]:
        """Around a GET or HEAD. Whoever may not list the whole bucket is told of an object that does not exist that
        access is denied; a listing of the key alone, which a role may well allow, tells the two apart."""
        try:
            yield
        except CredentialsRefused:
            raise
        except AccessDenied as error:
            if self._is_gone(full_key, call):
                raise NotFound(f"{call}: there is no such object") from error
            raise

    def _is_gone(self, full_key: str, call: Call) -> bool:
        """Whether a listing says so. One that fails says nothing."""
        try:
            with translating(call):
                page = self._connection.client.list_objects_v2(Bucket=self._bucket, Prefix=full_key, MaxKeys=1)
        except (TransientError, PreconditionFailedError, StorageError):
            return False
        return "IsTruncated" in page and full_key not in {found["Key"] for found in page.get("Contents", ())}

    def _bulk(self, key: str, full_key: str, call: Call) -> Body | None:
        """None when obstore refuses and boto3 shall say why."""
        import obstore
        from obstore.exceptions import GenericError

        with translating(call):
            store = self._connection.bulk(self._bucket)
        if store is None:
            return None
        try:
            result = obstore.get(store, full_key)
        except GenericError as error:
            raise TransientError(_said(error)) from error
        except _bulk_errors():
            return None
        meta = result.meta
        etag, modified = (meta["e_tag"] or "").strip('"'), meta["last_modified"]
        info = ObjectInfo(key, meta["size"], etag, modified.timestamp(), _version(meta["version"]))
        return BulkBody(info, result, self._chunk_bytes)


class S3Reader:
    """Opens on construction; `read` returns exactly as much as was asked for, less only at the end."""

    def __init__(self, downloads: Downloads, key: str, full_key: str, call: Call, retry: Retry) -> None:
        self._downloads = downloads
        self._full_key = full_key
        self._call = call
        self._retry = retry
        self._body: Body | None = retry.call(str(call), lambda n: downloads.start(key, full_key, call, n))
        self._info = self._body.info
        self._fetched_bytes = 0
        self._chunk = memoryview(b"")

    @property
    def info(self) -> ObjectInfo:
        return self._info

    def read(self, size: int = -1, /) -> bytes:
        left = self._info.size - self._fetched_bytes + len(self._chunk)
        wanted = left if size < 0 else min(size, left)
        pieces = []
        while wanted > 0:
            pieces.append(self._take(wanted))
            wanted -= len(pieces[-1])
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None

    def _take(self, most: int) -> memoryview:
        if not self._chunk:
            self._chunk = memoryview(self._retry.call(str(self._call), self._fetch))
            self._fetched_bytes += len(self._chunk)
        piece, self._chunk = self._chunk[:most], self._chunk[most:]
        return piece

    def _fetch(self, _: int) -> bytes:
        if self._body is None:
            self._body = self._downloads.resume(self._info, self._full_key, self._call, self._fetched_bytes)
        try:
            return self._expect_more(self._body.chunk())
        except TransientError:
            self.close()
            raise

    def _expect_more(self, data: bytes) -> bytes:
        if not data:
            raise TransientError(f"the download broke off at byte {self._fetched_bytes} of {self._info.size}")
        return data


def described(key: str, answer: dict[str, Any], size: int) -> ObjectInfo:
    """What get_object and head_object say of an object."""
    modified_ts = answer["LastModified"].timestamp()
    return ObjectInfo(key, size, answer["ETag"].strip('"'), modified_ts, _version(answer.get("VersionId")))


def _version(version_id: str | None) -> str | None:
    return None if version_id == "null" else version_id


def _bulk_errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError

    return (BaseError, OSError, ValueError)


def _said(error: Exception) -> str:
    """obstore appends the answer, which may repeat the request with its signature, and pages of debug output."""
    return first_line(str(error)).partition("<")[0].rstrip(" :")
