"""The HTTP side of the local AWS: connections that stay open, and no work per request that can be done once."""

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
    """One connection for many requests; the handler that moto ships closes it after each.

    That can be done here because a request is read to its end before it is answered.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024

    def handle_expect_100(self) -> bool:
        wanted = super().handle_expect_100()
        # Until it has seen the 100, the client does not send what we are about to read.
        self.wfile.flush()
        return wanted

    def run_wsgi(self) -> None:
        self.environ = environ = self.make_environ()
        environ["wsgi.input"] = io.BytesIO(self._read_body(environ))
        environ["wsgi.input_terminated"] = True
        self._respond(*self._answer(environ))

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: a line per request is noise. Errors are logged elsewhere, and still are."""

    def _read_body(self, environ: dict[str, Any]) -> bytes:
        """ConnectionError when the client has gone in the middle: half a body must not become an object."""
        if environ.get("wsgi.input_terminated"):
            return _read_chunks(environ["wsgi.input"])
        expected_bytes = int(environ.get("CONTENT_LENGTH") or 0)
        body: bytes = self.rfile.read(expected_bytes)
        if len(body) < expected_bytes:
            raise ConnectionError(f"{len(body)} of {expected_bytes} bytes came")
        return body

    def _answer(self, environ: dict[str, Any]) -> tuple[int, str, Headers, bytes]:
        try:
            chunks, status, headers = run_wsgi_app(self.server.app, environ, buffered=True)
            code, _, reason = status.partition(" ")
            return int(code), reason, list(headers.items()), b"".join(chunks)
        except Exception:  # noqa: BLE001 - the top of a request: the server goes on, the client gets the trace
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
    """moto's, which lists a directory of the installation for each request to find the service."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self.get_backend_for_host = cache(super().get_backend_for_host)  # type: ignore[method-assign]


def start(port: int) -> BaseWSGIServer:
    """A server that listens, on a free port for 0, and answers once `serve_forever` is called."""
    return make_server("127.0.0.1", port, with_local_api(Dispatcher()), threaded=True, request_handler=KeepAliveHandler)


def _read_chunks(stream: io.RawIOBase) -> bytes:
    try:
        return stream.read() or b""
    except OSError as error:
        raise ConnectionError("the chunked body broke off") from error
