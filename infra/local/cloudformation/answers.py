"""Takes the answers of custom resources: an HTTP server in place of the S3 bucket of CloudFormation.

As that bucket does, it accepts a PUT to the presigned URL, with its query and without a content type, and nothing else.
"""

import secrets
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class AnswerServer:
    """Thread-safe. Listens on 127.0.0.1, and ends with its process."""

    def __init__(self) -> None:
        self._waiting: dict[str, threading.Event] = {}
        self._answers: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def open(self) -> str:
        """A presigned URL for one answer."""
        key, signature = secrets.token_hex(16), secrets.token_hex(16)
        self._waiting[f"/{key}?{signature}"] = threading.Event()
        port = self._server.server_address[1]
        return f"http://127.0.0.1:{port}/{key}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={signature}"

    def wait(self, url: str, timeout_secs: float) -> bytes | None:
        """None: no answer came in time. An answer that comes later is refused."""
        name = _name(url)
        self._waiting[name].wait(timeout_secs)
        del self._waiting[name]
        return self._answers.pop(name, None)

    def take(self, path: str, content_type: str, body: bytes) -> int:
        """Returns the status of the response."""
        waiting = self._waiting.get(_name(path))
        if waiting is None or content_type:
            return 403  # SignatureDoesNotMatch
        self._answers.setdefault(_name(path), body)
        waiting.set()
        return 200


@cache
def answer_server() -> AnswerServer:
    """One per process, started when it is needed."""
    return AnswerServer()


def _name(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parse_qs(parts.query).get('X-Amz-Signature', [''])[0]}"


def _handler(server: AnswerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(server.take(self.path, self.headers.get("Content-Type") or "", body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
            """Log nothing per request."""

    return Handler
