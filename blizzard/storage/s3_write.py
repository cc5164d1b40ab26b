"""Writing an S3 object in pieces: a small object by one PUT, a larger one by a multipart upload, whose parts are sent
in the background."""

import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from blizzard.errors import NotFound, StorageError, StorageUnavailable
from blizzard.storage.retry import Retry
from blizzard.storage.s3_connection import S3Connection
from blizzard.storage.s3_errors import S3Call, UploadGoneError, translate_s3_errors

PART_BYTES = 8 << 20
"""Initial size of a part. An open writer has up to two parts in memory: one being filled, one being sent."""
_PARTS_OF_ONE_SIZE = 1000
_WRITER_ID = "blizzard-writer"


class Upload:
    """One multipart upload. All requests are retried by `retry`, and raise the errors of a store."""

    def __init__(self, connection: S3Connection, bucket: str, full_key: str, call: S3Call, retry: Retry) -> None:
        self._connection = connection
        self._bucket = bucket
        self._full_key = full_key
        self._call = call
        self._retry = retry
        self._writer_id = uuid.uuid4().hex
        self._upload_id: str | None = None
        self._parts: list[dict[str, Any]] = []

    def add_part(self, data: bytes) -> None:
        """Send the next part. S3 refuses a part below 5 MiB unless it is the last one."""
        checksum = self._checksum()
        if self._upload_id is None:
            response = self._request("create_multipart_upload", Metadata={_WRITER_ID: self._writer_id}, **checksum)
            self._upload_id = str(response["UploadId"])
        number = len(self._parts) + 1
        response = self._request("upload_part", UploadId=self._upload_id, PartNumber=number, Body=data, **checksum)
        # Checksums that were sent with the parts have to be repeated at the end.
        sums = {
            name: value for name, value in response.items() if name.startswith("Checksum") and name != "ChecksumType"
        }
        self._parts.append({"PartNumber": number, "ETag": response["ETag"], **sums})

    def _checksum(self) -> dict[str, Any]:
        """The upload has to name it at its start, or a server may refuse the checksums of the parts at its end. None if
        the user wants only those that are required (AWS_REQUEST_CHECKSUM_CALCULATION)."""
        wanted = self._connection.client.meta.config.request_checksum_calculation
        return {"ChecksumAlgorithm": "CRC32"} if wanted == "when_supported" else {}

    def complete(self) -> None:
        try:
            self._request("complete_multipart_upload", UploadId=self._upload_id, MultipartUpload={"Parts": self._parts})
        except UploadGoneError as error:
            # An earlier attempt may have completed the upload, and its response was lost.
            if not self._is_complete():
                raise StorageError(
                    f"{self._call}: the upload was aborted from outside before it was complete, for example by a "
                    "lifecycle rule. Write again, and let the rule for incomplete uploads keep them for at least a day."
                ) from error

    def abort(self) -> None:
        """Delete the parts. A failure is only logged, since the error that made the writer give up has to be raised."""
        if self._upload_id is None:
            return
        try:
            self._request("abort_multipart_upload", S3Call("abort", self._call.uri), UploadId=self._upload_id)
        except UploadGoneError:
            return
        except (StorageError, StorageUnavailable) as error:
            self._retry.log("upload_not_aborted", call=str(self._call), upload=self._upload_id, error=str(error))

    def _is_complete(self) -> bool:
        try:
            response = self._request("head_object", S3Call("head", self._call.uri))
        except NotFound:
            return False
        return bool(response.get("Metadata", {}).get(_WRITER_ID) == self._writer_id)

    def _request(self, operation: str, call: S3Call | None = None, **request: Any) -> dict[str, Any]:
        call = call or self._call

        def attempt(_: int) -> dict[str, Any]:
            with translate_s3_errors(call):
                method = getattr(self._connection.client, operation)
                response: dict[str, Any] = method(Bucket=self._bucket, Key=self._full_key, **request)
            return response

        return self._retry.call(str(call), attempt)


class S3Writer:
    """Collects a part and sends it in the background. `put` writes an object that is smaller than a part."""

    def __init__(self, upload: Upload, put: Callable[[bytes], object]) -> None:
        self._upload = upload
        self._put = put
        self._pieces: list[bytes] = []
        self._collected_bytes = 0
        self._parts = 0
        self._closed = False
        self._sender: ThreadPoolExecutor | None = None
        self._sending: Future[None] | None = None

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        if self._closed:
            raise ValueError("expected an open writer, found one whose `with` block has ended; open a new one")
        piece = bytes(data)
        self._pieces.append(piece)
        self._collected_bytes += len(piece)
        # Parts double in size from time to time, since S3 allows at most 10,000 of them.
        if self._collected_bytes >= PART_BYTES << (self._parts // _PARTS_OF_ONE_SIZE):
            self._send_part()
        return len(piece)

    def finish(self) -> None:
        self._closed = True
        if self._sender is None:
            self._put(self._join_pieces())
            return
        if self._pieces:
            self._send_part()
        self._wait_for_part()
        self._sender.shutdown()
        self._upload.complete()

    def abort(self) -> None:
        self._closed = True
        self._pieces.clear()
        if self._sender is not None:
            # A part that arrives after the abort would stay in the bucket.
            self._sender.shutdown(wait=True)
            self._upload.abort()

    def _send_part(self) -> None:
        self._wait_for_part()
        self._parts += 1
        if self._sender is None:
            self._sender = ThreadPoolExecutor(1, thread_name_prefix="s3-part")
        self._sending = self._sender.submit(self._upload.add_part, self._join_pieces())

    def _wait_for_part(self) -> None:
        if self._sending is not None:
            self._sending.result()
        self._sending = None

    def _join_pieces(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._collected_bytes = 0
        return data
