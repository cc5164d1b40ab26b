"""Reading an S3 object in pieces. A download that ends early is resumed at the byte where it stopped, in the same
version of the object."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

from blizzard.errors import AccessDenied, CredentialsRefused, NotFound, StorageError
from blizzard.log import first_line
from blizzard.storage.base import ObjectInfo
from blizzard.storage.keys import is_plain
from blizzard.storage.retry import Retry, TransientError
from blizzard.storage.s3_connection import S3Connection
from blizzard.storage.s3_errors import PreconditionFailedError, S3Call, translate_s3_errors


class Body(Protocol):
    """The response to one GET."""

    @property
    def info(self) -> ObjectInfo: ...

    def chunk(self) -> bytes:
        """The next bytes, b"" at the end. Raises TransientError."""
        ...

    def close(self) -> None: ...


class BotoBody:
    """The body of boto3's get_object."""

    def __init__(self, info: ObjectInfo, stream: Any, chunk_bytes: int, call: S3Call) -> None:
        self.info = info
        self._stream = stream
        self._chunk_bytes = chunk_bytes
        self._call = call

    def chunk(self) -> bytes:
        with translate_s3_errors(self._call):
            data: bytes = self._stream.read(self._chunk_bytes)
        return data

    def close(self) -> None:
        self._stream.close()


class ObstoreBody:
    """The body of obstore's get. An object of at most one chunk is fetched with a single call, which takes a third of
    the CPU time."""

    def __init__(self, info: ObjectInfo, result: Any, chunk_bytes: int) -> None:
        self.info = info
        whole = info.size <= chunk_bytes
        self._chunks = _in_one_piece(result) if whole else iter(result.stream(min_chunk_size=chunk_bytes))

    def chunk(self) -> bytes:
        try:
            return bytes(next(self._chunks, b""))
        except _obstore_errors() as error:
            raise TransientError(_error_text(error)) from error

    def close(self) -> None:
        self._chunks = iter(())


def _in_one_piece(result: Any) -> Iterator[Any]:
    """Fetches on the first `next`, so that a failure is raised by the read."""
    yield result.bytes()


class Downloads:
    """Opens objects of one bucket. obstore makes the first attempt, since it uses several times less CPU time. boto3
    does the rest: keys that obstore cannot address, refusals (boto3's errors have types), further attempts and resumed
    downloads."""

    def __init__(self, connection: S3Connection, bucket: str, chunk_bytes: int) -> None:
        self._connection = connection
        self._bucket = bucket
        self._chunk_bytes = chunk_bytes

    def start(self, key: str, full_key: str, call: S3Call, attempt: int) -> Body:
        if attempt == 1 and is_plain(full_key) and (body := self._get_by_obstore(key, full_key, call)) is not None:
            return body
        response = self.get_object(full_key, call)
        return BotoBody(
            describe_response(key, response, response["ContentLength"]), response["Body"], self._chunk_bytes, call
        )

    def resume(self, info: ObjectInfo, full_key: str, call: S3Call, offset: int) -> Body:
        """Continues at byte `offset`. Raises StorageError if the object was overwritten since `info`."""
        try:
            response = self.get_object(full_key, call, Range=f"bytes={offset}-", IfMatch=f'"{info.etag}"')
        except PreconditionFailedError as error:
            raise StorageError(
                f"{call}: the object was overwritten while it was read (expected etag {info.etag}). "
                "Read it again from its start."
            ) from error
        if not response.get("ContentRange", "").startswith(f"bytes {offset}-"):
            raise _no_ranges(call, f"the bytes from {offset} to the end", response)
        return BotoBody(info, response["Body"], self._chunk_bytes, call)

    def get_range(self, full_key: str, call: S3Call, start: int, size: int, attempt: int) -> bytes:
        """Raises StorageError if the response has other bytes than the object has from `start` on."""
        if attempt == 1 and is_plain(full_key):
            found = self._get_range_by_obstore(full_key, call, start, size)
            if found is not None:
                return found
        response = self.get_object(full_key, call, Range=f"bytes={start}-{start + size - 1}")
        if not response.get("ContentRange", "").startswith(f"bytes {start}-"):
            raise _no_ranges(call, f"{size} bytes from byte {start} on", response)
        with translate_s3_errors(call), closing(response["Body"]) as body:
            data: bytes = body.read()
        if len(data) != response["ContentLength"]:
            raise TransientError(f"the download ended early, after {len(data)} of {response['ContentLength']} bytes")
        return data

    def get_object(self, full_key: str, call: S3Call, **conditions: str) -> dict[str, Any]:
        with self.distinguish_missing_from_denied(full_key, call), translate_s3_errors(call):
            client = self._connection.client
            response: dict[str, Any] = client.get_object(Bucket=self._bucket, Key=full_key, **conditions)
        return response

    @contextmanager
    def distinguish_missing_from_denied(self, full_key: str, call: S3Call) -> Iterator[None]:
        """For a GET or HEAD. Without permission to list the bucket, S3 responds to a missing object with AccessDenied.
        A listing of this key alone, which a role may allow, distinguishes the two. Raises NotFound or AccessDenied."""
        try:
            yield
        except CredentialsRefused:
            raise
        except AccessDenied as error:
            if self._is_missing(full_key, call):
                raise NotFound(f"{call}: there is no such object") from error
            raise

    def _is_missing(self, full_key: str, call: S3Call) -> bool:
        """Whether a listing shows that the object is missing. False if the listing fails."""
        try:
            with translate_s3_errors(call):
                page = self._connection.client.list_objects_v2(Bucket=self._bucket, Prefix=full_key, MaxKeys=1)
        except (TransientError, PreconditionFailedError, StorageError):
            return False
        return "IsTruncated" in page and full_key not in {found["Key"] for found in page.get("Contents", ())}

    def _get_range_by_obstore(self, full_key: str, call: S3Call, start: int, size: int) -> bytes | None:
        """None if obstore is not there (in a function), or if it refuses: boto3 has typed errors."""
        try:
            import obstore
            from obstore.exceptions import GenericError
        except ImportError:
            return None
        with translate_s3_errors(call):
            store = self._connection.obstore_store(self._bucket)
        if store is None:
            return None
        try:
            return bytes(obstore.get_range(store, full_key, start=start, length=size))
        except GenericError as error:
            raise TransientError(_error_text(error)) from error
        except _obstore_errors():
            return None

    def _get_by_obstore(self, key: str, full_key: str, call: S3Call) -> Body | None:
        """None if obstore refuses: the request is repeated with boto3 for its typed error."""
        import obstore
        from obstore.exceptions import GenericError

        with translate_s3_errors(call):
            store = self._connection.obstore_store(self._bucket)
        if store is None:
            return None
        try:
            result = obstore.get(store, full_key)
        except GenericError as error:
            raise TransientError(_error_text(error)) from error
        except _obstore_errors():
            return None
        meta = result.meta
        etag, modified = (meta["e_tag"] or "").strip('"'), meta["last_modified"]
        info = ObjectInfo(key, meta["size"], etag, modified.timestamp(), _version(meta["version"]))
        return ObstoreBody(info, result, self._chunk_bytes)


def _no_ranges(call: S3Call, expected: str, response: dict[str, Any]) -> StorageError:
    return StorageError(
        f"{call}: expected {expected}, found {response.get('ContentRange')!r}. The storage, or a proxy in front of it, "
        "does not support range requests; use one that does."
    )


class S3Reader:
    """Opens the object on construction. `read` returns exactly `size` bytes, fewer only at the end."""

    def __init__(self, downloads: Downloads, key: str, full_key: str, call: S3Call, retry: Retry) -> None:
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
            pieces.append(self._next_piece(wanted))
            wanted -= len(pieces[-1])
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None

    def _next_piece(self, max_bytes: int) -> memoryview:
        if not self._chunk:
            self._chunk = memoryview(self._retry.call(str(self._call), self._fetch))
            self._fetched_bytes += len(self._chunk)
        piece, self._chunk = self._chunk[:max_bytes], self._chunk[max_bytes:]
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
            raise TransientError(f"the download ended early, at byte {self._fetched_bytes} of {self._info.size}")
        return data


def describe_response(key: str, response: dict[str, Any], size: int) -> ObjectInfo:
    """The object of a get_object or head_object response."""
    modified_ts = response["LastModified"].timestamp()
    return ObjectInfo(key, size, response["ETag"].strip('"'), modified_ts, _version(response.get("VersionId")))


def _version(version_id: str | None) -> str | None:
    return None if version_id == "null" else version_id


def _obstore_errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError

    return (BaseError, OSError, ValueError)


def _error_text(error: Exception) -> str:
    """obstore appends the response, which may contain the request with its signature, and long debug output."""
    return first_line(str(error)).partition("<")[0].rstrip(" :")
