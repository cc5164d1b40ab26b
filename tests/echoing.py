"""A fake AWS whose errors repeat the credentials of the request, as AWS may after a wrong signature."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fixtures_faulty_s3 import FaultyS3, Handler

ACCESS_KEY, SECRET, TOKEN = "AKIAQQQQQQQQQQQQQQQQ", "s3cr3t-key-of-a-test/ABCDEFGH", "t0ken-of-a-session-QQQQQQQQQQ=="
SIGNATURE = "5ignature0123456789abcdef"
SECRETS = (ACCESS_KEY, SECRET, TOKEN, SIGNATURE)
ENVIRONMENT: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
    "AWS_REGION": "us-east-1",
}
REFUSALS: Mapping[str, int] = {
    "SignatureDoesNotMatch": 403,
    "AccessDenied": 403,
    "ExpiredToken": 400,
    "InvalidAccessKeyId": 403,
    "InternalError": 500,
    "NoSuchBucket": 404,
    "Unheard": 418,
}


def said_by_s3(code: str, headers: Mapping[str, str]) -> bytes:
    """As S3 does: next to the message, not in it."""
    echo = f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><StringToSign>{headers.get('X-Amz-Security-Token')}"
    echo += f"</StringToSign><SignatureProvided>{SIGNATURE} {headers.get('Authorization')}</SignatureProvided>"
    echo += f"<HostId>{SECRET}</HostId>"
    body = f"<Error><Code>{code}</Code><Message>No.</Message>{echo}</Error>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def said_by_others(headers: Mapping[str, str]) -> bytes:
    """As SQS does: in the message, after its first line."""
    echo = "The request signature we calculated does not match the signature you provided.\n\nThe Canonical String for "
    echo += f"this request should have been\n'POST\n/\n\nx-amz-security-token:{headers.get('X-Amz-Security-Token')}\n'"
    echo += f"\n{headers.get('Authorization')} {SIGNATURE} {SECRET}"
    return json.dumps({"__type": "InvalidSignatureException", "message": echo}).encode()


class Refusing(BaseHTTPRequestHandler):
    """Responds to each request with an error that repeats its content."""

    server: "RefusingServer"
    protocol_version = "HTTP/1.1"  # otherwise each PUT waits a second for "100 Continue"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "X-Amz-Target" in self.headers or self.path.startswith("/applications/"):
            status, body = 403, said_by_others(self.headers)
        else:
            status, body = REFUSALS[self.server.code], said_by_s3(self.server.code, self.headers)
        self.send_response(status)
        self.send_header("x-amzn-ErrorType", "InvalidSignatureException")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - as the server wants it

    def log_message(self, *echo: object) -> None:
        pass


class RefusingServer(ThreadingHTTPServer):
    """`code`: S3's error code for every request."""

    code = "AccessDenied"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Refusing)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Proxied(Handler):
    server: "EchoingS3"  # type: ignore[assignment]

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        code = self.server.refusal(self.command, self.path)
        if code:
            body = said_by_s3(code, self.headers)
            self.answer(REFUSALS[code], [("Content-Length", str(len(body))), ("Content-Type", "application/xml")], body)
        else:
            self.answer(*self.ask())

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815

    def remember(self, status: int | None) -> None:
        """Log nothing: there are too many requests."""


class EchoingS3(FaultyS3):
    """A proxy in front of S3. Below a folder `raw`, keys that start with `denied` or `unheard` are always refused.
    `once`: every other request is refused once, with 500. `everything`: the response to all requests, if not empty."""

    def __init__(self, endpoint: str, *, once: bool = True) -> None:
        super().__init__(endpoint)
        self._once = once
        self.RequestHandlerClass: Callable[..., Any] = _Proxied
        self.everything = ""
        self.refused: Counter[str] = Counter()
        self._asked: set[tuple[str, str]] = set()
        self._asking = threading.Lock()

    def refusal(self, method: str, path: str) -> str:
        with self._asking:
            code = self._refusal(method, path)
            self.refused[code] += 1
            return code

    def _refusal(self, method: str, path: str) -> str:
        if self.everything:
            return self.everything
        folder, _, name = path.partition("?")[0].rpartition("/")
        for start, code in {"denied": "AccessDenied", "unheard": "Unheard"}.items():
            if name.startswith(start) and "/raw/" in f"{folder}/":
                return code
        first = (method, path) not in self._asked
        self._asked.add((method, path))
        return "InternalError" if first and self._once else ""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serve in a thread until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
