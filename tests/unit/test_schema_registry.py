"""The client of a schema registry, over HTTP."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka import schema_registry
from blizzard.kafka.schema_registry import NoSchema, SchemaRegistry
from infra.local.kafka.security import Security
from tests.unit.schema_registry import Registry, record_of

ID = record_of({"id": "long"})
PASSWORD = "secret-password"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as made:
        yield made


def answering(code: int, body: bytes) -> Callable[[], tuple[int, bytes]]:
    return lambda: (code, body)


def test_a_schema_is_asked_for_once(registry: Registry) -> None:
    number = registry.add(ID)
    for _ in range(3):
        assert json.loads(SchemaRegistry(registry.url).schema(number)) == ID
    assert registry.asked == [f"/schemas/ids/{number}"]


def test_the_cache_is_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "MAX_CACHED_BYTES", 250)
    client = SchemaRegistry(registry.url)
    for _ in range(9):
        client.schema(registry.add(ID))
        assert sum(map(len, schema_registry._cached.values())) <= 250
    client.schema(1)
    assert registry.asked.count("/schemas/ids/1") == 2


def test_a_login_is_sent_and_never_shown() -> None:
    with Registry(("u:1", PASSWORD)) as registry:
        registry.add(ID)
        assert SchemaRegistry(registry.url, "u:1", PASSWORD).schema(1)
        for login in ((None, None), ("u:1", "wrong-password")):
            with pytest.raises(PermanentError, match=r"401 Unauthorized.*its username and password") as refused:
                SchemaRegistry(registry.url, *login).schema(2)
            assert "password" not in str(refused.value).replace("username and password", "")
        assert PASSWORD not in repr(SchemaRegistry(registry.url, "u:1", PASSWORD))


@pytest.mark.parametrize(
    ("code", "body", "error", "says"),
    [
        (404, b'{"error_code": 40403, "message": "not found"}', NoSchema, "it has no schema with this id"),
        (404, b"<html>nginx</html>", PermanentError, "404. Nothing was committed. Correct .* its url"),
        (404, b'{"error_code": 404, "message": "HTTP 404"}', PermanentError, "404 HTTP 404"),
        (403, b"{}", PermanentError, "403.* the rights of this user"),
        (400, b'{"message": "bad"}', PermanentError, "400 bad"),
        (302, b"http://127.0.0.1:1/", PermanentError, "302"),
        (500, b"", RetryableError, "answers 500"),
        (503, b'{"message": "starting"}', RetryableError, "answers 503 starting"),
        (429, b"[]", RetryableError, "answers 429"),
        (200, b"", RetryableError, "does not answer as one"),
        (200, b"<html>please log in</html>", RetryableError, "does not answer as one"),
        (200, b"[1]", RetryableError, "does not answer as one"),
        (200, b'{"schema": {}}', RetryableError, "does not answer as one"),
        (200, b"[" * 100_000, RetryableError, "does not answer as one"),
        (200, b'{"schema": "syntax", "schemaType": "PROTOBUF"}', NoSchema, "of the type 'PROTOBUF'"),
        (200, b'{"schema": "{}", "references": [{}]}', NoSchema, "refers to other schemas"),
        (200, b" " * (schema_registry.MAX_ANSWER_BYTES + 1), NoSchema, "it has more than"),
    ],
)
def test_each_answer_is_what_it_is_for_the_messages(
    registry: Registry, code: int, body: bytes, error: type[Exception], says: str
) -> None:
    registry.answer = answering(code, body)
    for _ in range(2):
        with pytest.raises(error, match=says):
            SchemaRegistry(registry.url).schema(1)
    assert len(registry.asked) == 2
    registry.answer = None
    registry.add(ID)
    assert SchemaRegistry(registry.url).schema(1)


def test_a_redirection_is_not_followed(registry: Registry) -> None:
    with Registry() as other:
        other.add(ID)
        registry.answer = answering(302, f"{other.url}/schemas/ids/1".encode())
        with pytest.raises(PermanentError, match="302"):
            SchemaRegistry(registry.url, "u", PASSWORD).schema(1)
        assert other.asked == []


def test_a_registry_that_is_slow_or_gone_may_come_back(registry: Registry) -> None:
    goes_on = threading.Event()

    def late() -> tuple[int, bytes]:
        goes_on.wait(60)
        return 200, b"{}"

    registry.answer = late
    try:
        with pytest.raises(RetryableError, match="does not answer: TimeoutError"):
            SchemaRegistry(registry.url, timeout_secs=0.2).schema(1)
    finally:
        goes_on.set()
    registry.close()
    with pytest.raises(RetryableError, match="does not answer: ConnectionRefusedError"):
        SchemaRegistry(registry.url).schema(1)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "does not answer as one"),
        (b"garbage\r\n\r\n", "does not answer: BadStatusLine"),
        (b"", "does not answer: RemoteDisconnected"),
        (b"HTTP/1.1 500 Broken\r\nContent-Length: 9\r\n\r\n{", "answers 500"),
    ],
)
def test_an_answer_that_breaks_off_may_be_whole_the_next_time(answer: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(RetryableError, match=says):
            SchemaRegistry(f"http://127.0.0.1:{server.getsockname()[1]}").schema(1)
        thread.join()


def test_an_answer_that_trickles_is_given_up() -> None:
    """Each part comes within the timeout, and the whole does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not done.wait(0.01):
                    connection.sendall(b" ")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        start = time.monotonic()
        with pytest.raises(RetryableError, match=r"has not ended after 0\.3 s"):
            SchemaRegistry(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_secs=0.3).schema(1)
        assert time.monotonic() - start < 10
        done.set()
        thread.join()


def test_certificates_and_their_names_are_verified(tmp_path: Path) -> None:
    security, stranger = (Security.make(tmp_path / name, {"u": "p"}) for name in ("ours", "theirs"))
    trusted = security.ca_file.read_text()
    with Registry(certificate=security.server_file, host="") as registry:
        registry.add(ID)
        for ca_pem in (None, stranger.ca_file.read_text()):
            with pytest.raises(PermanentError, match=r"cannot be verified.*`ca_location`"):
                SchemaRegistry(registry.url, ca_pem=ca_pem).schema(1)
        with pytest.raises(PermanentError, match="IP address mismatch"):
            SchemaRegistry(registry.url.replace("127.0.0.1", "127.0.0.2"), ca_pem=trusted).schema(1)
        assert registry.asked == []
        for name in ("127.0.0.1", "localhost"):
            url = registry.url.replace("127.0.0.1", name)
            assert SchemaRegistry(url, ca_pem=trusted).schema(1)


def test_certificates_of_authorities_that_are_none_are_an_error_of_the_configuration(registry: Registry) -> None:
    with pytest.raises(PermanentError, match=r"certificates cannot be read.*ca_location"):
        SchemaRegistry(registry.url, ca_pem="-----BEGIN CERTIFICATE-----\nno").schema(1)
