"""A schema registry of a test, over HTTP on loopback, and payloads in its form."""

import base64
import io
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import fastavro

from blizzard.kafka import schema_registry

Answer = tuple[int, bytes]


def record_of(fields: dict[str, Any], name: str = "r", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": k} for n, k in fields.items()], **more}


def encoded(schema: Any, record: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, record)
    return file.getvalue()


def framed(schema_id: int, schema: Any, record: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + encoded(schema, record)


class Registry:
    """Schemas that are added get the ids 1, 2 and so on. `answer`, if it is set, answers instead, unless its
    answer is None. `certificate`: a file
    with it and its key, for TLS."""

    def __init__(
        self, login: tuple[str, str] | None = None, certificate: Path | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.asked: list[str] = []
        """The paths, in their order."""
        self.answer: Callable[[], Answer | None] | None = None
        self._documents: dict[int, dict[str, Any]] = {}
        self._versions: dict[str, list[dict[str, Any]]] = {}
        self._login = login
        schema_registry._cached.clear()  # of another registry, which had the same port
        self._server = ThreadingHTTPServer((host, 0), _handler(self))
        self._scheme = "http" if certificate is None else "https"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def add(self, schema: Any, **more: Any) -> int:
        """`more`: further fields of the answer."""
        self._documents[len(self._documents) + 1] = {"schema": json.dumps(schema), **more}
        return len(self._documents)

    def add_version(self, subject: str, schema: Any, **more: Any) -> tuple[str, int]:
        """Subject and version, from 1 on. `more`: as for `add`."""
        versions = self._versions.setdefault(subject, [])
        schema_id = self.add(schema, **more)
        versions.append(
            {"subject": subject, "version": len(versions) + 1, "id": schema_id, **self._documents[schema_id]}
        )
        return subject, len(versions)

    def rewrite(self, subject: str, text: str) -> None:
        """The newest version of a subject gets another text, which may be no schema."""
        self._versions[subject][-1]["schema"] = text

    def answered(self, path: str, login: str | None) -> Answer:
        self.asked.append(path)
        if self.answer is not None and (answer := self.answer()) is not None:
            return answer
        if self._login is not None and login != f"Basic {base64.b64encode(':'.join(self._login).encode()).decode()}":
            return 401, json.dumps({"error_code": 40101, "message": "Unauthorized"}).encode()
        if path.startswith("/subjects/"):
            return self._version(*map(unquote, path.removeprefix("/subjects/").split("/versions/")))
        return _found(self._documents.get(int(path.removeprefix("/schemas/ids/"))), 40403)

    def _version(self, subject: str, version: str) -> Answer:
        versions = self._versions.get(subject)
        return (
            _found(None, 40401) if versions is None else _found(dict(enumerate(versions, 1)).get(int(version)), 40402)
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def refers_to(*versions: tuple[str, int]) -> list[dict[str, Any]]:
    """As a registry has `references`."""
    return [{"name": subject, "subject": subject, "version": version} for subject, version in versions]


def _found(document: dict[str, Any] | None, error_code: int) -> Answer:
    if document is None:
        return 404, json.dumps({"error_code": error_code, "message": "not found"}).encode()
    return 200, json.dumps(document).encode()


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = registry.answered(self.path, self.headers.get("Authorization"))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    return Handler
