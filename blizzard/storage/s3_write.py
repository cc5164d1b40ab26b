"""Writing an S3 object in pieces: small ones as one PUT, others as a multipart upload whose parts are sent while the
next one fills up."""

import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from blizzard.errors import NotFound, StorageError, StorageUnavailable
from blizzard.storage.retry import Retry
from blizzard.storage.s3_connection import S3Connection
from blizzard.storage.s3_errors import Call, UploadGoneError, translating

PART_BYTES = 8 << 20
"""What a part has at first; an open writer holds up to twice as much: one that fills up, one on its way."""
_PARTS_OF_ONE_SIZE = 1000
_WRITER_ID = "blizzard-writer"


class Upload:
    """One multipart upload. Each call is repeated as `retry` says and raises the errors of a store."""

    def __init__(self, connection: S3Connection, bucket: str, full_key: str, call: Call, retry: Retry) -> None:
        self._connection = connection
        self._bucket = bucket
        self._full_key = full_key
        self._call = call
        self._retry = retry
        self._writer_id = uuid.uuid4().hex
        self._upload_id: str | None = None
        self._parts: list[dict[str, Any]] = []

    def add(self, data: bytes) -> None:
        """The next part; S3 refuses one below 5 MiB unless it is the last."""
        if self._upload_id is None:
            answer = self._send("create_multipart_upload", Metadata={_WRITER_ID: self._writer_id})
            self._upload_id = str(answer["UploadId"])
        number = len(self._parts) + 1
        answer = self._send("upload_part", UploadId=self._upload_id, PartNumber=number, Body=data)
        # Whoever sends checksums with the parts has to repeat them in the end.
        sums = {name: said for name, said in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"], **sums})

    def complete(self) -> None:
        try:
            self._send("complete_multipart_upload", UploadId=self._upload_id, MultipartUpload={"Parts": self._parts})
        except UploadGoneError as error:
            # The answer to an attempt that did complete it may have been lost.
            if not self._is_there():
                raise StorageError(
                    f"{self._call}: the upload was aborted from elsewhere before it was complete. Write again; a rule "
                    "of the bucket for incomplete uploads has to leave them at least a day."
                ) from error

    def abort(self) -> None:
        """Leaves no parts behind, or says so in the log: whatever made the writer give up is what has to be raised."""
        if self._upload_id is None:
            return
        try:
            self._send("abort_multipart_upload", Call("abort", self._call.place), UploadId=self._upload_id)
        except UploadGoneError:
            return
        except (StorageError, StorageUnavailable) as error:
            self._retry.log("upload_not_aborted", call=str(self._call), upload=self._upload_id, error=str(error))

    def _is_there(self) -> bool:
        try:
            answer = self._send("head_object", Call("head", self._call.place))
        except NotFound:
            return False
        return bool(answer.get("Metadata", {}).get(_WRITER_ID) == self._writer_id)

    def _send(self, operation: str, call: Call | None = None, **request: Any) -> dict[str, Any]:
        call = call or self._call

        def attempt(_: int) -> dict[str, Any]:
            with translating(call):
                method = getattr(self._connection.client, operation)
                answer: dict[str, Any] = method(Bucket=self._bucket, Key=self._full_key, **request)
            return answer

        return self._retry.call(str(call), attempt)


class S3Writer:
    """Collects a part and sends it in the background. `put` writes what never grew to a part."""

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
            raise ValueError("expected an open writer, found one whose block has ended")
        piece = bytes(data)
        self._pieces.append(piece)
        self._collected_bytes += len(piece)
        # Parts double from time to time: S3 takes 10,000 of them.
        if self._collected_bytes >= PART_BYTES << (self._parts // _PARTS_OF_ONE_SIZE):
            self._send()
        return len(piece)

    def finish(self) -> None:
        self._closed = True
        if self._sender is None:
            self._put(self._take())
            return
        if self._pieces:
            self._send()
        self._await_sent()
        self._sender.shutdown()
        self._upload.complete()

    def abort(self) -> None:
        self._closed = True
        self._pieces.clear()
        if self._sender is not None:
            # A part that arrives after the abort would stay.
            self._sender.shutdown(wait=True)
            self._upload.abort()

    def _send(self) -> None:
        self._await_sent()
        self._parts += 1
        if self._sender is None:
            self._sender = ThreadPoolExecutor(1, thread_name_prefix="s3-part")
        self._sending = self._sender.submit(self._upload.add, self._take())

    def _await_sent(self) -> None:
        if self._sending is not None:
            self._sending.result()
        self._sending = None

    def _take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._collected_bytes = 0
        return data
