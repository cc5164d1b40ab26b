"""S3 as an object store. boto3 lists and writes, since it can address every key. obstore reads, since it uses less CPU
time."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from blizzard.errors import AlreadyExists, NotFound
from blizzard.log import Log, silent
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectWriter
from blizzard.storage.keys import check_key
from blizzard.storage.retry import Retry, TransientError
from blizzard.storage.s3_connection import S3Settings, connection
from blizzard.storage.s3_errors import PreconditionFailedError, S3Call, error_from_response, translate_s3_errors
from blizzard.storage.s3_read import Downloads, S3Reader, describe_response
from blizzard.storage.s3_write import S3Writer, Upload

__all__ = ["S3Settings", "S3Store"]

_KEYS_PER_DELETE = 1000


class S3Store:
    """The objects of `bucket` whose key begins with `prefix` ("" or ending in `/`, taken literally).

    `modified_ts` of a new object is the time of S3's response, within a second of what a listing has.
    """

    def __init__(self, bucket: str, prefix: str = "", settings: S3Settings | None = None, *, log: Log = silent) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._settings = settings or S3Settings()
        self._connection = connection(self._settings)
        self._downloads = Downloads(self._connection, bucket, self._settings.chunk_bytes)
        self._retry = Retry(
            self._settings.max_attempts, self._settings.first_backoff_secs, self._settings.max_backoff_secs, log
        )

    @property
    def uri(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        for page in self._pages(prefix, start_after, "" if recursive else "/"):
            for found in page.get("Contents", ()):
                key = found["Key"].removeprefix(self._prefix)
                if key and not key.endswith("/"):
                    modified_ts = found["LastModified"].timestamp()
                    yield ObjectInfo(key, found["Size"], found["ETag"].strip('"'), modified_ts)

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        for page in self._pages(prefix, start_after, "/"):
            for found in page.get("CommonPrefixes", ()):
                folder: str = found["Prefix"].removeprefix(self._prefix)
                # S3 does not document that StartAfter applies to folders: after `a/5` it may still return `a/`.
                if folder > start_after:
                    yield folder

    def head(self, key: str) -> ObjectInfo | None:
        """None also for a missing bucket: S3's response to HEAD is the same."""
        full_key, call = self._full_key(key), self._call("head", key)

        def attempt(_: int) -> ObjectInfo:
            with self._downloads.distinguish_missing_from_denied(full_key, call), translate_s3_errors(call):
                response = self._connection.client.head_object(Bucket=self._bucket, Key=full_key)
            return describe_response(key, response, response["ContentLength"])

        try:
            return self._retry.call(str(call), attempt)
        except NotFound:
            return None

    def get(self, key: str) -> bytes:
        return self._get(key)[1]

    def get_range(self, key: str, start: int, size: int) -> bytes:
        full_key, call = self._full_key(key), self._call("get", key)
        return self._retry.call(str(call), lambda n: self._downloads.get_range(full_key, call, start, size, n))

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        with closing(
            S3Reader(self._downloads, key, self._full_key(key), self._call("get", key), self._retry)
        ) as reader:
            yield reader

    def create(self, key: str, data: bytes) -> ObjectInfo:
        try:
            return self._put(key, data, self._call("create", key), {"IfNoneMatch": "*"})
        except PreconditionFailedError as refused:
            return self._existing_if_equal(key, data, refused)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        return self._put(key, data, self._call("put", key), {})

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        call = self._call("put", key)
        upload = Upload(self._connection, self._bucket, self._full_key(key), call, self._retry)
        writer = S3Writer(upload, lambda data: self._put(key, data, call, {}))
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer.abort()
            raise

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while batch := [self._full_key(key) for key in islice(remaining, _KEYS_PER_DELETE)]:
            self._delete_batch([key for key in batch if key.isprintable()])
            # A batch is XML, which cannot express most control characters.
            for key in batch:
                if not key.isprintable():
                    self._delete_single(key)

    def _pages(self, prefix: str, start_after: str, delimiter: str) -> Iterator[dict[str, Any]]:
        call = self._call("list", prefix)
        request = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": self._settings.page_size}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        if delimiter:
            request["Delimiter"] = delimiter

        def attempt(_: int) -> dict[str, Any]:
            with translate_s3_errors(call):
                response: dict[str, Any] = self._connection.client.list_objects_v2(**request)
            # botocore parses a response that was cut off before its first byte as a listing without keys.
            if "IsTruncated" not in response:
                raise TransientError("the response was truncated")
            return response

        while True:
            page = self._retry.call(str(call), attempt)
            yield page
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _get(self, key: str) -> tuple[ObjectInfo, bytes]:
        full_key, call = self._full_key(key), self._call("get", key)

        def attempt(_: int) -> tuple[ObjectInfo, bytes]:
            response = self._downloads.get_object(full_key, call)
            with translate_s3_errors(call), closing(response["Body"]) as body:
                data: bytes = body.read()
            return describe_response(key, response, len(data)), data

        return self._retry.call(str(call), attempt)

    def _put(self, key: str, data: bytes, call: S3Call, condition: dict[str, str]) -> ObjectInfo:
        full_key = self._full_key(key)

        def attempt(_: int) -> ObjectInfo:
            with translate_s3_errors(call):
                client = self._connection.client
                response = client.put_object(Bucket=self._bucket, Key=full_key, Body=data, **condition)
            etag, version_id = response["ETag"].strip('"'), response.get("VersionId")
            return ObjectInfo(key, len(data), etag, _response_ts(response), version_id)

        return self._retry.call(str(call), attempt)

    def _existing_if_equal(self, key: str, data: bytes, refused: PreconditionFailedError) -> ObjectInfo:
        """The existing object if it has exactly `data`: S3 also refuses the retry of a write whose response was lost.
        Raises AlreadyExists."""
        with suppress(NotFound):
            info, found = self._get(key)
            if found == data:
                return info
        raise AlreadyExists(f"{self._call('create', key)}: another writer created this object first") from refused

    def _delete_batch(self, full_keys: Iterable[str]) -> None:
        objects = [{"Key": key} for key in dict.fromkeys(full_keys)]
        if not objects:
            return
        call = S3Call("delete", f"s3://{self._bucket}/{objects[0]['Key']} and {len(objects) - 1} more")

        def attempt(_: int) -> None:
            with translate_s3_errors(call):
                client = self._connection.client
                response = client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects})
            for refused in response.get("Errors", ()):
                raise error_from_response(S3Call("delete", f"s3://{self._bucket}/{refused.get('Key')}"), refused)
            if len(response.get("Deleted", ())) < len(objects):
                raise TransientError("the response was truncated")

        self._retry.call(str(call), attempt)

    def _delete_single(self, full_key: str) -> None:
        call = S3Call("delete", f"s3://{self._bucket}/{full_key}")

        def attempt(_: int) -> None:
            with translate_s3_errors(call):
                self._connection.client.delete_object(Bucket=self._bucket, Key=full_key)

        self._retry.call(str(call), attempt)

    def _full_key(self, key: str) -> str:
        check_key(key, self.uri)
        full_key = self._prefix + key
        check_key(full_key, f"s3://{self._bucket}/")
        return full_key

    def _call(self, operation: str, key: str) -> S3Call:
        return S3Call(operation, self.uri + key)


def _response_ts(response: dict[str, Any]) -> float:
    date = response["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
    return parsedate_to_datetime(date).timestamp() if date else time.time()
