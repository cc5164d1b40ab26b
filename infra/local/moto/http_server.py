"""The HTTP side of the local AWS: keeps connections open, and caches the service of a host."""

import io
import sys
import traceback
from functools import cache
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.test import run_wsgi_app

from infra.local.moto.local_api import with_local_api

BODILESS = (204, 304)
Headers = list[tuple[str, str]]


class KeepAliveHandler(MotoRequestHandler):
    """Serves many requests per connection; moto's own handler closes it after each.

    Each request is read completely before the response is sent, so that the next one starts at a known place.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024

    def handle_expect_100(self) -> bool:
        keep_reading = super().handle_expect_100()
        # The client sends the body only after it has received the 100.
        self.wfile.flush()
        return keep_reading

    def run_wsgi(self) -> None:
        self.environ = environ = self.make_environ()
        environ["wsgi.input"] = io.BytesIO(self._read_body(environ))
        environ["wsgi.input_terminated"] = True
        self._respond(*self._run_app(environ))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing per request. Errors are logged elsewhere."""

    def _read_body(self, environ: dict[str, Any]) -> bytes:
        """Raises ConnectionError when the client disconnects early: half a body must not become an object."""
        if environ.get("wsgi.input_terminated"):
            return _read_chunks(environ["wsgi.input"])
        expected_bytes = int(environ.get("CONTENT_LENGTH") or 0)
        body: bytes = self.rfile.read(expected_bytes)
        if len(body) < expected_bytes:
            raise ConnectionError(f"received {len(body)} of {expected_bytes} bytes")
        return body

    def _run_app(self, environ: dict[str, Any]) -> tuple[int, str, Headers, bytes]:
        try:
            chunks, status, headers = run_wsgi_app(self.server.app, environ, buffered=True)
            code, _, reason = status.partition(" ")
            return int(code), reason, list(headers.items()), b"".join(chunks)
        except Exception:  # noqa: BLE001 - the top of a request: the server continues, the client gets the traceback
            trace = traceback.format_exc()
            sys.stderr.write(trace)
            return 500, "Internal Server Error", [("Content-Type", "text/plain")], trace.encode()

    def _respond(self, code: int, reason: str, headers: Headers, body: bytes) -> None:
        self.send_response(code, reason)
        for name, value in headers:
            self.send_header(name, value)
        if code not in BODILESS and not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and code not in BODILESS:
            self.wfile.write(body)


class Dispatcher(DomainDispatcherApplication):
    """Caches the service of a host. moto's own lists a directory of its installation for each request."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self.get_backend_for_host = cache(super().get_backend_for_host)  # type: ignore[method-assign]


def start(port: int) -> BaseWSGIServer:
    """A listening server, on a free port for 0. It answers once `serve_forever` is called."""
    return make_server("127.0.0.1", port, with_local_api(Dispatcher()), threaded=True, request_handler=KeepAliveHandler)


def _read_chunks(stream: io.RawIOBase) -> bytes:
    try:
        return stream.read() or b""
    except OSError as error:
        raise ConnectionError("the chunked body ended early") from error
