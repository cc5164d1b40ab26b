"""The schemas of a registry with Confluent's interface, by their ids, which never get another meaning."""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import IO, Any, NoReturn

from blizzard.errors import PermanentError, RetryableError

TIMEOUT_SECS = 10.0
MAX_ANSWER_BYTES = 8 << 20
MAX_CACHED_BYTES = 64 << 20
_READ_BYTES = 64 << 10
_SCHEMA_NOT_FOUND = 40403
_MAY_PASS = (408, 425, 429)
"""Codes below 500 after which the same request may succeed."""
_cached: dict[tuple[str, int], str] = {}
"""Schemas by the registry's address and their ids, for all tasks of this process."""


class NoSchema(Exception):
    """The registry answers, but has no schema of Avro with this id. The text says what it has."""


class SchemaRegistry:
    """`password`: of `username`, sent as basic authentication. `timeout_secs`: of one request. `monotonic` is a clock
    in seconds."""

    def __init__(
        self,
        url: str,
        username: str | None = None,
        password: str | None = None,
        ca_location: str | None = None,
        timeout_secs: float = TIMEOUT_SECS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._login = None if username is None else b64encode(f"{username}:{password or ''}".encode()).decode()
        self._ca_location = ca_location
        self._timeout_secs = timeout_secs
        self._monotonic = monotonic
        self._opener: urllib.request.OpenerDirector | None = None

    def schema(self, schema_id: int) -> str:
        """As JSON, from the cache of this process if it is there. Raises NoSchema; RetryableError if the registry does
        not answer, or not as one does; PermanentError if it refuses."""
        known = _cached.get((self._url, schema_id))
        if known is None:
            known = self._asked(schema_id)
            if sum(map(len, _cached.values())) + len(known) > MAX_CACHED_BYTES:
                _cached.clear()
            _cached[self._url, schema_id] = known
        return known

    def _asked(self, schema_id: int) -> str:
        answer = _object(self._answer(f"/schemas/ids/{schema_id}"))
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RetryableError(f"{self._name} does not answer as one: found no schema in what it says about an id")
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise NoSchema(f"it is a schema of the type {kind!r:.40}; expected one of Avro")
        if answer.get("references"):
            raise NoSchema("it refers to other schemas of the registry, which is not supported")
        return text

    def _answer(self, path: str) -> bytes:
        try:
            with self._open(path) as response:
                return self._body(response)
        except urllib.error.HTTPError as error:
            with error:
                self._refuse(error.code, _start_of(error))
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise PermanentError(
                    f"{self._name} has a certificate that cannot be verified: {reason.verify_message}. Nothing was "
                    "committed. Correct `avro.registry.url` or `ca_location` of the source."
                ) from error
            raise RetryableError(f"{self._name} does not answer: {reason!r:.300}") from error

    def _open(self, path: str) -> Any:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", "User-Agent": "blizzard"}
        request = urllib.request.Request(self._url + path, headers=headers)
        if self._login is not None:
            request.add_unredirected_header("Authorization", f"Basic {self._login}")
        if self._opener is None:
            self._opener = urllib.request.build_opener(_NoRedirects, self._https())
        return self._opener.open(request, timeout=self._timeout_secs)

    def _https(self) -> urllib.request.HTTPSHandler:
        """Certificates and names are verified."""
        try:
            return urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self._ca_location))
        except OSError as error:
            raise PermanentError(
                f"{self._name}: the file {self._ca_location} with certificates cannot be read: {error}. Correct "
                "`avro.registry.ca_location` of the source."
            ) from error

    def _body(self, response: IO[bytes]) -> bytes:
        """Within the timeout as a whole, however slowly it comes."""
        until, data = self._monotonic() + self._timeout_secs, bytearray()
        while part := response.read1(_READ_BYTES):  # type: ignore[attr-defined]
            data += part
            if len(data) > MAX_ANSWER_BYTES:
                raise NoSchema(f"it has more than {MAX_ANSWER_BYTES:,} bytes")
            if self._monotonic() > until:
                raise TimeoutError(f"its answer has not ended after {self._timeout_secs:g} s")
        return bytes(data)

    def _refuse(self, code: int, body: bytes) -> NoReturn:
        """For an answer that is an error."""
        answer = _object(body)
        if code == 404 and answer.get("error_code") == _SCHEMA_NOT_FOUND:
            raise NoSchema("it has no schema with this id")
        said = f"{code} {answer.get('message', '')!s:.200}".strip()
        if code >= 500 or code in _MAY_PASS:
            raise RetryableError(f"{self._name} answers {said}")
        correct = "username and password, or the rights of this user" if code in (401, 403) else "url"
        raise PermanentError(
            f"{self._name} refuses to give schemas: {said}. Nothing was committed. Correct `avro.registry` of the "
            f"source: its {correct}."
        )

    @property
    def _name(self) -> str:
        return f"the schema registry {self._url}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A login is for one address."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def _start_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_READ_BYTES)
    except (OSError, http.client.HTTPException):
        return b""


def _object(body: bytes) -> Mapping[str, Any]:
    """Empty if it is no JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
