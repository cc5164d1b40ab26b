"""The schemas of a registry with Confluent's interface, by their ids, which never get another meaning."""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, NoReturn
from urllib.parse import quote

from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka.schema_references import DefinedTwice, self_contained

TIMEOUT_SECS = 10.0
MAX_ANSWER_BYTES = 8 << 20
MAX_CACHED_BYTES = 64 << 20
_READ_BYTES = 64 << 10
MAX_REFERENCES = 100
"""Schemas that one refers to, also by others. Each is a request."""
MAX_REFERENCE_DEPTH = 20
_NOT_FOUND: Mapping[int, str] = {
    40401: "the registry has no such subject",
    40402: "the registry has no such version of the subject",
    40403: "it has no schema with this id",
}
_MAY_PASS = (408, 425, 429)
"""Codes below 500 after which the same request may succeed."""
_cached: dict[tuple[str, str], str] = {}
"""Schemas by the registry's address and what it was asked, for all tasks of this process."""

_Version = tuple[str, int]
"""A subject, and one of its versions, which never gets another schema."""


class NoSchema(Exception):
    """The registry answers, but has no whole schema of Avro with this id. The text says what it has."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A schema as the registry has it, and the versions of subjects that it refers to."""

    text: str
    references: tuple[_Version, ...]


class SchemaRegistry:
    """`password`: of `username`, sent as basic authentication. `timeout_secs`: of one request. `monotonic` is a clock
    in seconds."""

    def __init__(
        self,
        url: str,
        username: str | None = None,
        password: str | None = None,
        ca_pem: str | None = None,
        timeout_secs: float = TIMEOUT_SECS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._login = None if username is None else b64encode(f"{username}:{password or ''}".encode()).decode()
        self._ca_pem = ca_pem
        self._timeout_secs = timeout_secs
        self._monotonic = monotonic
        self._opener: urllib.request.OpenerDirector | None = None

    def schema(self, schema_id: int) -> str:
        """As JSON, with the schemas that it refers to, from the cache of this process if it is there. Raises NoSchema;
        RetryableError if the registry does not answer, or not as one does; PermanentError if it refuses."""
        return self._known(f"/schemas/ids/{schema_id}", self._whole)

    def _known(self, path: str, ask: Callable[[str], str]) -> str:
        """What `ask` says of this path, asked once."""
        known = _cached.get((self._url, path))
        if known is None:
            known = ask(path)
            if sum(map(len, _cached.values())) + len(known) > MAX_CACHED_BYTES:
                _cached.clear()
            _cached[self._url, path] = known
        return known

    def _whole(self, path: str) -> str:
        stored = _stored(self._asked(path))
        if not stored.references:
            return stored.text
        others = dict[_Version, str]()
        self._add_references(stored, (), others)
        return _together(stored.text, others)

    def _add_references(self, stored: _Stored, inside: tuple[_Version, ...], found: dict[_Version, str]) -> None:
        """Adds the texts of all that it refers to, also by others, each asked for once. `inside`: what leads there."""
        for one in stored.references:
            subject, version = one
            if one in inside:
                raise NoSchema(f"it refers to version {version} of subject {subject!r}, which refers to itself")
            if one in found:
                continue
            if len(inside) == MAX_REFERENCE_DEPTH:
                raise NoSchema(f"its references go more than {MAX_REFERENCE_DEPTH} schemas deep")
            if len(found) == MAX_REFERENCES:
                raise NoSchema(f"it refers to more than {MAX_REFERENCES} other schemas, also by others")
            path = f"/subjects/{quote(subject, safe='', errors='replace')}/versions/{version}"
            try:
                other = _stored(self._known(path, self._asked))
            except NoSchema as error:
                raise NoSchema(f"it refers to version {version} of subject {subject!r}: {error}") from error
            found[one] = other.text
            if sum(map(len, found.values())) > MAX_ANSWER_BYTES:
                raise NoSchema(f"it refers to schemas of more than {MAX_ANSWER_BYTES:,} bytes")
            self._add_references(other, (*inside, one), found)

    def _asked(self, path: str) -> str:
        """The schema and its references as JSON, for `_stored`."""
        answer = _object(self._answer(path))
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RetryableError(f"{self._name} does not answer as one: found no schema in what it says about one")
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise NoSchema(f"it is a schema of the type {kind!r:.40}; expected one of Avro")
        return json.dumps({"schema": text, "references": answer.get("references") or []})

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
            return urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=self._ca_pem))
        except OSError as error:
            raise PermanentError(
                f"{self._name}: its authorities' certificates cannot be read: {error}. Correct "
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
        missing = answer.get("error_code")
        if code == 404 and isinstance(missing, int) and missing in _NOT_FOUND:
            raise NoSchema(_NOT_FOUND[missing])
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


def _stored(text: str) -> _Stored:
    """Raises NoSchema for references that are none."""
    document = json.loads(text)
    found, versions = document["references"], list[_Version]()
    for one in found if isinstance(found, list) else [found]:
        match one:
            case {"subject": str(subject), "version": int(version)} if subject and version > 0 and version is not True:
                versions.append((subject, version))
            case _:
                raise NoSchema(f"it refers to other schemas, and not by their subjects and versions: {found!r:.200}")
    return _Stored(document["schema"], tuple(versions))


def _together(text: str, others: Mapping[_Version, str]) -> str:
    """Raises NoSchema."""
    try:
        return json.dumps(self_contained(json.loads(text), map(json.loads, others.values())))
    except DefinedTwice as error:
        raise NoSchema(f"it and the schemas that it refers to define {error} in two ways") from error
    except ValueError as error:
        raise NoSchema(f"it, or a schema that it refers to, is no JSON: {error}") from error
    except RecursionError as error:
        raise NoSchema("it is nested too deep, with the schemas that it refers to") from error
