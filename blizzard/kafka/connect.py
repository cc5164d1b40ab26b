"""Settings of librdkafka's clients, with what these report while they run. No client is made from other settings."""

import os
import platform
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from blizzard.errors import BlizzardError, PermanentError, RetryableError
from blizzard.kafka.errors import is_refusal, read_error
from blizzard.kafka.msk_token import Token, new_token

GROUP = "blizzard-reads-without-a-group"
"""librdkafka wants one; nothing is ever committed for it."""
_FILES: Mapping[str, str] = {
    "ssl.certificate.location": "certificate_location",
    "ssl.key.location": "key_location",
}
"""By librdkafka's setting, the field of `kafka.security` with a path that has to be there wherever a client is."""
_Client = TypeVar("_Client")
LEAST_AHEAD_KB, MOST_AHEAD_KB = 1024, (1 << 21) - 1
"""Of messages that are fetched ahead; librdkafka takes no more."""
REFRESH_MS = 5_000
"""How soon a change of a partition's leader is known. A client asks for it on its own only each five minutes, and goes
on to ask the old leader."""


class Reports:
    """Of one client, which calls this from its own threads. `newest`: the last error beside the answers, and of these
    rather one that gives a reason. `all_down`: whether at some time no broker could be reached."""

    def __init__(self) -> None:
        self.newest: KafkaError | None = None
        self.all_down = False
        self._token_error: BlizzardError | None = None
        self._first: Token | None = None

    def refusal(self) -> BlizzardError | None:
        """Why nothing will come. None: nothing says so."""
        if self._token_error is not None:
            return self._token_error
        if self.newest is not None and is_refusal(self.newest):
            return read_error(self.newest)
        return None

    def note(self, error: KafkaError) -> None:
        is_sum = error.code() == KafkaError._ALL_BROKERS_DOWN
        self.all_down = self.all_down or is_sum
        if not is_sum or self.newest is None:
            self.newest = error

    def prepare_token(self, config: str) -> None:
        """Errors as of `new_token`, which a client that is being made would hide, and wait for ten seconds."""
        self._first = new_token(config)

    def token(self, config: str) -> Token:
        """librdkafka asks again when four fifths of a token's time are over."""
        first, self._first = self._first, None
        try:
            made = first or new_token(config)
        except (PermanentError, RetryableError) as error:
            self._token_error = error
            raise
        self._token_error = self.newest = None  # what was refused before is tried again with this one
        return made


def client_settings(settings: Mapping[str, str], reports: Reports) -> dict[str, Any]:
    """For a client of any kind. `settings`: of `Login`, perhaps of another process. Raises PermanentError or
    RetryableError if there is no token to log in with."""
    found: dict[str, Any] = {
        "client.id": "blizzard",
        "log_level": 0,  # what matters comes with the answers
        "topic.metadata.refresh.interval.ms": REFRESH_MS,
        **settings,
        "error_cb": reports.note,
    }
    if settings.get("sasl.mechanisms") == "OAUTHBEARER":
        reports.prepare_token(settings["sasl.oauthbearer.config"])
        found["oauth_cb"] = reports.token
    return found


def consumer_settings(
    settings: Mapping[str, str], isolation: str, memory_bytes: int, reports: Reports
) -> dict[str, Any]:
    """As `client_settings`, for a consumer that belongs to no group, commits nothing, and fails rather than read other
    offsets than those that it is told. `memory_bytes`: for messages that are fetched ahead."""
    return {
        "group.id": GROUP,
        **client_settings(settings, reports),
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        # With the client's own second the queue is empty most of the time: a tenth of the messages a second.
        "fetch.queue.backoff.ms": 10,
        "queued.max.messages.kbytes": min(max(LEAST_AHEAD_KB, memory_bytes >> 10), MOST_AHEAD_KB),
    }


def made(kind: Callable[[dict[str, Any]], _Client], settings: Mapping[str, Any]) -> _Client:
    """A client of this kind. `settings`: of this module. Raises PermanentError if the client takes no such settings, as
    on a machine that lacks a file which they name."""
    try:
        return kind({**settings})
    except (KafkaException, ValueError) as error:
        raise PermanentError(_absent_files(settings) or _wrong_settings(error)) from error


def _absent_files(settings: Mapping[str, Any]) -> str | None:
    """None: they are all there."""
    paths = {field: str(settings[name]) for name, field in _FILES.items() if name in settings}
    absent = [f"{field}: {path}" for field, path in paths.items() if not os.access(path, os.R_OK)]
    if not absent:
        return None
    return (
        f"`kafka.security` names a file that cannot be read on {platform.node()} ({'; '.join(absent)}). Expected the "
        "client's certificate and key on each machine where the job or one of its tasks runs. Nothing was committed. "
        "Put the file there, or correct its path."
    )


def _wrong_settings(error: Exception) -> str:
    said = error.args[0].str() if isinstance(error, KafkaException) else error
    return (
        f"Kafka's client takes no such settings: {said}. Nothing was committed. Correct `kafka.security`, the files "
        "that it names, or the password of the key."
    )
