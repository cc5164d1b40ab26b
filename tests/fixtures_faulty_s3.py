"""A proxy in front of S3 that injects faults."""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest


@dataclass(frozen=True)
class Exchange:
    """One request and the status of S3's response; None when the request did not reach S3."""

    method: str
    path: str
    headers: dict[str, str]
    status: int | None


class Handler(BaseHTTPRequestHandler):
    """Passes requests on to S3, unless a fault is due."""

    protocol_version = "HTTP/1.1"
    server: "FaultyS3"

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.due(self.command)
        fault(self) if fault else self.answer(*self.ask())

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815

    def ask(self) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, self.body, dict(self.headers))
            answer = upstream.getresponse()
            self.remember(answer.status)
            return answer.status, answer.getheaders(), answer.read()

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, cut_at: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut_at])
            self.wfile.flush()

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def remember(self, status: int | None) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.exchanges.append(Exchange(self.command, self.path, headers, status))

    def log_message(self, *_: object) -> None:
        """Log nothing; the exchanges are recorded."""


Fault = Callable[[Handler], None]


class FaultyS3(ThreadingHTTPServer):
    """A proxy in front of S3 with a list of faults by method, each injected once, in order."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = urlsplit(endpoint).netloc
        self.exchanges: list[Exchange] = []
        self.faults: list[Fault] = []
        self.method = ""
        self.over = threading.Event()
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def inject(self, method: str, *faults: Fault) -> None:
        self.method, self.faults = method, list(faults)
        self.exchanges.clear()

    def due(self, method: str) -> Fault | None:
        with self._lock:
            return self.faults.pop(0) if method == self.method and self.faults else None

    def handle_error(self, *_: object) -> None:
        """Ignore disconnected clients: these tests provoke them."""


def saying(status: int, body: bytes) -> Fault:
    """Respond instead of S3."""

    def fault(handler: Handler) -> None:
        handler.remember(None)
        handler.answer(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")], body)

    return fault


def refusing(status: int, code: str) -> Fault:
    return saying(status, f"<Error><Code>{code}</Code><Message>as injected</Message></Error>".encode())


def resetting(handler: Handler) -> None:
    handler.remember(None)
    handler.reset()


def stalling(handler: Handler) -> None:
    handler.remember(None)
    handler.server.over.wait(timeout=20)
    handler.reset()


def losing_the_answer(handler: Handler) -> None:
    handler.ask()
    handler.reset()


def ending_early(at: int) -> Fault:
    """A response without a length, so that only its reader can notice that it is incomplete."""

    def fault(handler: Handler) -> None:
        status, headers, body = handler.ask()
        handler.answer(status, [header for header in headers if header[0].lower() != "content-length"], body[:at])
        handler.close_connection = True

    return fault


def cutting(at: int, then: Callable[[], object] = lambda: None) -> Fault:
    def fault(handler: Handler) -> None:
        handler.answer(*handler.ask(), cut_at=at)
        then()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    return fault


@pytest.fixture
def faulty_s3(s3_endpoint: str) -> Iterator[FaultyS3]:
    with FaultyS3(s3_endpoint) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()
