"""The part of HTTP/1.1 that S3 clients need, on an asyncio protocol: a web framework would be ten times slower."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus

from benchmarks.s3_stand_in.answers import Answer, Request

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client's connection. It handles one request at a time and answers `latency_secs` after reading it."""

    def __init__(self, answer: Callable[[Request], Answer], latency_secs: float) -> None:
        self._answer = answer
        self._latency_secs = latency_secs
        self._buffer = bytearray()
        self._request: Request | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=1 << 24)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def _advance(self) -> None:
        """Parses received data: the head first, then the body."""
        if self._request is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._request = _head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if self._request.headers.get("expect", "").lower() == "100-continue":
                self._write(CONTINUE)
        body = _body(self._buffer, self._request.headers)
        if body is None:
            return
        head, self._request = self._request, None
        response = self._answer(Request(head.method, head.target, head.headers, body))
        loop = asyncio.get_running_loop()
        if self._latency_secs:
            loop.call_later(self._latency_secs, self._write, _bytes(response))
        else:
            self._write(_bytes(response))
        if self._buffer:
            self._advance()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _head(text: bytes) -> Request:
    first, *lines = text.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, target, headers)


def _body(buffer: bytearray, headers: Mapping[str, str]) -> bytes | None:
    """Removes the body from the buffer when it is complete; None until then."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        found = _unchunked(buffer)
        if found is None:
            return None
        body, size = found
    else:
        size = int(headers.get("content-length", 0))
        if len(buffer) < size:
            return None
        body = bytes(buffer[:size])
    del buffer[:size]
    if headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        signed = _unchunked(bytearray(body))
        return None if signed is None else signed[0]
    return body


def _unchunked(buffer: bytearray) -> tuple[bytes, int] | None:
    """Decodes chunks of HTTP or of AWS's signed streaming: the content, and the bytes used including trailers; None if
    the data is incomplete."""
    parts: list[bytes] = []
    at = 0
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size = int(buffer[at:end].partition(b";")[0], 16)
        at = end + 2
        if size == 0:
            return _trailed(buffer, parts, at)
        if len(buffer) < at + size + 2:
            return None
        parts.append(bytes(buffer[at : at + size]))
        at += size + 2
    return None


def _trailed(buffer: bytearray, parts: list[bytes], at: int) -> tuple[bytes, int] | None:
    """Skips the trailers, which end with an empty line."""
    while (end := buffer.find(b"\r\n", at)) >= 0:
        if end == at:
            return b"".join(parts), end + 2
        at = end + 2
    return None


def _bytes(answer: Answer) -> bytes:
    length = len(answer.body) if answer.length is None else answer.length
    headers = {**answer.headers, "x-amz-request-id": "local", "Server": "local"}
    if answer.status != HTTPStatus.NO_CONTENT:
        headers["Content-Length"] = str(length)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode("latin-1") + answer.body
