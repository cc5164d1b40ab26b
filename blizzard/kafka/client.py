"""`Brokers` by librdkafka's admin client."""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NoReturn

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from blizzard.background import Background
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import BlizzardError, NeverAnswered, PermanentError, RetryableError
from blizzard.kafka.brokers import Cluster, End, Place, Topic
from blizzard.kafka.connect import Reports, client_settings, made
from blizzard.kafka.errors import group_error, never_answered, read_error
from blizzard.kafka.login import SECRET_CHANGED, Login
from blizzard.kafka.truncation import truncated
from blizzard.state.topic_checkpoint import Partition, path_of

TIMEOUT_SECS = 15.0
DOWN_SECS = 5.0
"""So long brokers that have never answered are tried if each connection fails at once, as at a wrong port."""
ANSWER_POLL_SECS = 0.25
_TIMED_OUT = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
NO_ID = str(Uuid(0, 0))
_WITHOUT_IDS = (
    "the brokers do not tell the ids of topics, by which one that was deleted and made again is another one. Expected "
    "Kafka 2.8 or later, or brokers that speak version 10 of its Metadata request. Nothing was read. Update them."
)
PUBLISH_ATTEMPTS = 5
PUBLISH_PAUSE_SECS = 0.2


class TopicMissing(RetryableError):
    """It was there a moment ago, if it is not described just now."""


class KafkaBrokers:
    """Connects when it is first asked."""

    def __init__(
        self,
        options: KafkaOptions,
        timeout_secs: float = TIMEOUT_SECS,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._monotonic = monotonic
        self._has_answered = False
        self._opened_ts = 0.0
        self._timeout_secs = timeout_secs
        self._login = Login(options)
        self._opened: AdminClient | None = None
        self._reports = Reports()
        committed = options.isolation == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    @property
    def _client(self) -> AdminClient:
        if self._opened is None:
            self._reports = Reports()
            settings = client_settings(self._login.settings(), self._reports)
            self._opened, self._opened_ts = made(AdminClient, settings), self._monotonic()
        return self._opened

    def cluster(self) -> Cluster:
        names = self._matching() if self._options.topics is None else [*self._options.topics]
        found = self._topics(names) if names else {}
        return Cluster(self._cluster_id(), found)

    def _topics(self, names: list[str]) -> dict[str, Topic]:
        asked = self._client.describe_topics(TopicCollection(names), request_timeout=self._timeout_secs)
        found = {name: self._described(name, future) for name, future in asked.items()}
        return {name: topic for name, topic in found.items() if topic is not None}

    def _cluster_id(self) -> str:
        """As the newest answer about topics had it. It is not asked for by `describe_cluster`: a broker that is about
        to stop answers that with no brokers at all, and librdkafka (2.16) then ends the process."""
        try:
            return self._client.cluster_id(timeout=self._timeout_secs)
        except KafkaException as error:
            self._fail(error.args[0], error)

    def _matching(self) -> list[str]:
        list_topics = partial(self._client.list_topics, timeout=self._timeout_secs)
        listed = self._answer(_asked_beside(list_topics)).topics
        return sorted(name for name in listed if self._options.matches(name))

    def _described(self, name: str, future: "Future[Any]") -> Topic | None:
        """None: there is no such topic. Raises PermanentError, too, if the brokers know no ids of topics."""
        try:
            found = self._answer(future, f"topic {name}")
        except TopicMissing:
            return None
        if str(found.topic_id) == NO_ID:
            self._give_up(PermanentError(_WITHOUT_IDS))
        return Topic(str(found.topic_id), frozenset(partition.id for partition in found.partitions))

    def first_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        told = self._told(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)  # type: ignore[no-untyped-call]
        return {partition: one.offset for partition, one in told.items()}

    def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, End]:
        told = self._told(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: End(one.offset, _epoch(one.leader_epoch)) for partition, one in told.items()}

    def truncated(self, places: Mapping[Partition, Place]) -> Mapping[Partition, str]:
        if not places:
            return {}
        try:
            return truncated(self._login.settings(), places)
        except (PermanentError, RetryableError) as error:
            self._give_up(error, error)

    def offsets_at(self, partitions: Collection[Partition], since_ts: float) -> Mapping[Partition, int]:
        found = self._offsets(partitions, OffsetSpec.for_timestamp(round(since_ts * 1000)))
        without = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **self.end_offsets(without)}

    def _offsets(self, partitions: Collection[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        return {partition: one.offset for partition, one in self._told(partitions, spec).items()}

    def _told(
        self, partitions: Collection[Partition], spec: OffsetSpec, isolation: IsolationLevel | None = None
    ) -> dict[Partition, Any]:
        """Offsets and leader epochs, as confluent_kafka has them. `isolation` None: the source's."""
        if not partitions:
            return {}
        asked = {TopicPartition(topic, number): spec for topic, number in partitions}
        how = self._isolation if isolation is None else isolation
        futures = self._client.list_offsets(asked, isolation_level=how, request_timeout=self._timeout_secs)
        named = {(one.topic, one.partition): future for one, future in futures.items()}
        return {partition: self._answer(future, path_of(partition)) for partition, future in named.items()}

    def publish(self, group: str, next_offsets: Mapping[Partition, int]) -> None:
        """A group's coordinator may have to be found first, so this is tried a few times, unless the brokers refuse."""
        if not next_offsets:
            return
        places = [TopicPartition(topic, number, offset) for (topic, number), offset in next_offsets.items()]
        found: BlizzardError | None = None
        for attempt in range(PUBLISH_ATTEMPTS):
            if attempt:
                self._sleep(PUBLISH_PAUSE_SECS)
            found = self._unpublished(group, places)
            if not isinstance(found, RetryableError):
                break
        if found is not None:
            raise found

    def _unpublished(self, group: str, places: list[TopicPartition]) -> BlizzardError | None:
        """Publishes offsets, but for those of topics that the brokers do not have any more. Why not, if they are not;
        raises what is not about the group, as `_fail`."""
        wanted = ConsumerGroupTopicPartitions(group, places)
        futures = self._client.alter_consumer_group_offsets([wanted], request_timeout=self._timeout_secs)
        try:
            answers = [one for future in futures.values() for one in self._waited(future).topic_partitions]
        except KafkaException as error:
            if error.args[0].code() in _TIMED_OUT:
                self._fail(error.args[0], error)
            return group_error(group, error.args[0])
        errors = (one.error for one in answers if one.error is not None)
        refused = next((error for error in errors if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART), None)
        return None if refused is None else group_error(group, refused)

    def _answer(self, future: "Future[Any]", about: str = "") -> Any:
        """`about`: the topic or partition that is asked for, for messages."""
        try:
            return self._waited(future)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._has_answered = True
                raise TopicMissing(str(error)) from error
            self._client.poll(0)
            self._fail(error.args[0], error, about)

    def _waited(self, future: "Future[Any]") -> Any:
        """Raises KafkaException. A refused login shows only beside the answer, which never comes; errors as of
        `Brokers` then."""
        while True:
            try:
                found = future.result(ANSWER_POLL_SECS)
            except TimeoutError:
                self._client.poll(0)
                if (refusal := self._reports.refusal()) is not None:
                    self._give_up(refusal)
                if self._is_nobody_there():
                    self._fail(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            else:
                self._has_answered = True
                return found

    def _is_nobody_there(self) -> bool:
        """Brokers that have answered this process may be restarted: they have the whole time."""
        secs = self._monotonic() - self._opened_ts
        return not self._has_answered and self._reports.all_down and secs >= DOWN_SECS

    def _fail(self, error: KafkaError, cause: Exception | None = None, about: str = "") -> NoReturn:
        newest, refusal = self._reports.newest, self._reports.refusal()
        if refusal is None and error.code() in _TIMED_OUT and not self._has_answered:
            self._give_up(never_answered(self._options, self._monotonic() - self._opened_ts, newest), cause)
        if error.code() in _TIMED_OUT and newest is not None:
            error, about = newest, ""
        self._give_up(refusal or read_error(error, about), cause)

    def _give_up(self, found: BlizzardError, cause: Exception | None = None) -> NoReturn:
        """The next question is asked by a client that knows nothing old."""
        self._opened = None
        if isinstance(found, NeverAnswered):
            raise found from cause
        where = f"(bootstrap_servers: {self._options.bootstrap_servers}) {found}"
        if not isinstance(found, PermanentError):
            raise RetryableError(where) from cause
        if self._login.is_changed():
            raise RetryableError(f"{where} {SECRET_CHANGED}") from cause
        raise PermanentError(where) from cause


def _asked_beside(question: Callable[[], Any]) -> "Future[Any]":
    """The answer to a question that waits for it by itself, and meanwhile says nothing of a login that is refused."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            answer.set_exception(error)

    Background(ask, name="topics", in_background=True)
    return answer


def _epoch(told: int | None) -> int | None:
    """Brokers without epochs say -1."""
    return None if told is None or told < 0 else told
