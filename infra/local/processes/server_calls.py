"""The client of the server's own paths below /_local/ (`infra/local/moto/local_api.py`)."""

import http.client
import json
import threading
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_SECS = 30.0


class LocalCallFailed(Exception):
    """The server did not respond, or responded with an error."""


class LocalCalls:
    """Thread-safe: each thread has its own connection."""

    def __init__(self, endpoint: str) -> None:
        self._host = urlsplit(endpoint).netloc
        self._local = threading.local()

    def call(self, method: str, path: str, sent: object = None) -> bytes:
        """Raises LocalCallFailed."""
        try:
            connection = self._connection()
            body = b"" if sent is None else json.dumps(sent).encode()
            connection.request(method, f"/_local/{path}", body)
            response = connection.getresponse()
            received = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._local.connection = None
            raise LocalCallFailed(f"{method} {path}: {error!r}") from error
        if response.status != http.client.OK:
            raise LocalCallFailed(f"{method} {path}: {response.status} {received.decode('utf-8', 'replace')[:500]}")
        return received

    def take_work(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = json.loads(self.call("POST", "work"))
        return found

    def send_result(self, name: str, result: dict[str, Any]) -> None:
        self.call("POST", f"results/{name}", result)

    def report_run(self, application: str, run: str, state: str, details: str) -> None:
        self.call("POST", f"runs/{application}/{run}", {"state": state, "details": details})

    def code(self, function: str) -> bytes:
        return self.call("GET", f"code/{quote(function)}")

    def deliver_job_events(self, deliver: bool) -> None:
        self.call("POST", f"emr-events/{'on' if deliver else 'off'}")

    def requests(self, since: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.call("GET", f"requests?since={since}"))
        return found

    def record_requests(self, record: bool) -> None:
        self.call("POST", f"requests/{'on' if record else 'off'}")

    def _connection(self) -> http.client.HTTPConnection:
        if getattr(self._local, "connection", None) is None:
            self._local.connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT_SECS)
        connection: http.client.HTTPConnection = self._local.connection
        return connection
