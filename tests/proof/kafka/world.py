"""Topics on real brokers, what was ever written to them, and the tables that jobs read them into."""

import json
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.topics import (
    WAIT_SECS,
    Message,
    consume,
    create_topic,
    end_offset,
    forget_before,
    leaders,
    produce,
    produce_in_transaction,
    until,
)
from tests.proof.campaign import Failed
from tests.proof.kafka.registry import AvroRegistry

PLAIN, TRANSACTIONS, COMPACTED, AVRO = "plain", "transactions", "compacted", "avro"
PARTITIONS = {PLAIN: 3, TRANSACTIONS: 2, COMPACTED: 2, AVRO: 2}
MOST_PARTITIONS = 6
ABORTED = "aborted"
ABORTS = "transactions aborted"
SENT_IMPATIENTLY = 1000
Place = tuple[str, int, int]
"""Topic, partition and offset."""
Decode = Callable[[bytes | None], Mapping[str, Any] | None]
"""The record that a payload holds; None: it has none."""
_MARK = re.compile("[0-9a-f]{32}")


@dataclass
class Topics:
    """`prefix`: of the names of one round's topics. `avro_rng`: for AVRO alone. `sent`: the marks in payloads that were
    ever sent to be kept."""

    cluster: KafkaCluster
    prefix: str
    rng: random.Random
    avro_rng: random.Random
    registry: AvroRegistry
    counts: Counter[str]
    truth: dict[Place, bytes | None] = field(default_factory=dict)
    """What consumers have ever seen, or producers were told is stored."""
    sent: set[str] = field(default_factory=set)
    deleted: set[Place] = field(default_factory=set)
    """What retention took."""

    def __post_init__(self) -> None:
        for topic, partitions in PARTITIONS.items():
            config = {"cleanup_policy": "compact", "segment_ms": "500", "min_cleanable_dirty_ratio": "0.01"}
            create_topic(self.settings, self.name(topic), partitions, **(config if topic == COMPACTED else {}))

    def name(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    @property
    def settings(self) -> dict[str, Any]:
        return self.cluster.client_settings()

    def partitions(self, topic: str) -> int:
        return len(
            AdminClient(self.settings)
            .list_topics(self.name(topic), timeout=WAIT_SECS)
            .topics[self.name(topic)]
            .partitions
        )

    # -- what happens to them

    def write(self) -> None:
        """To each topic. A broker may be gone: what is not acknowledged may be stored all the same, or twice."""
        partitions = self.partitions(PLAIN)
        plain = [self._message(self.rng.randrange(partitions)) for _ in range(self.rng.randint(5, 200))]
        self._send(PLAIN, plain)
        keyed = [self._message(self.rng.randrange(2), key=b"%d" % self.rng.randrange(5)) for _ in range(40)]
        self._send(COMPACTED, keyed)
        self._transaction(commit=self.rng.random() < 0.6)
        self._send(AVRO, [self._avro_message() for _ in range(self.avro_rng.randint(1, 60))])

    def write_to_first(self, count: int = 1) -> None:
        """All acknowledged, to the first partition of PLAIN."""
        produce(self.settings, self.name(PLAIN), [self._message(0) for _ in range(count)])

    def write_impatiently(self, happens: Callable[[], None]) -> None:
        """To the first partition of PLAIN, by a producer without idempotence that sends again what is not acknowledged
        within milliseconds, so that some messages are stored twice. It happens while requests are on their way."""
        messages = [self._message(0) for _ in range(SENT_IMPATIENTLY)]
        half = len(messages) // 2

        def sent() -> Iterator[Message]:
            yield from messages[:half]
            happens()
            yield from messages[half:]

        small = {"linger_ms": 0, "batch_num_messages": 5, "socket_timeout_ms": 20, "message_timeout_ms": 55_000}
        self._send(PLAIN, messages, sent(), enable_idempotence=False, **small)

    def end_of_first(self) -> int:
        return end_offset(self.settings, self.name(PLAIN))

    def _message(self, partition: int, key: bytes | None = None) -> Message:
        mark = _new_mark(self.rng)
        self.sent.add(mark)
        kind = self.rng.random()
        text = json.dumps({"id": mark, "n": self.rng.randrange(1 << 30)})
        if kind < 0.1:
            text = text[:-1] if kind < 0.05 else text.replace('"n": ', '"n": x')
        payload = None if key is not None and kind > 0.9 else text.encode()
        return Message(payload, key, partition, [("mark", mark.encode())])

    def _avro_message(self) -> Message:
        mark = _new_mark(self.avro_rng)
        self.sent.add(mark)
        return Message(self.registry.payload(mark, self.avro_rng), None, self.avro_rng.randrange(PARTITIONS[AVRO]))

    def _send(self, topic: str, messages: list[Message], sent: Iterable[Message] | None = None, **more: object) -> None:
        """`sent`: as they are given to the producer; `more`: its settings."""
        own = {"linger_ms": 5, "message_timeout_ms": 20_000, **more}
        try:
            places = produce(self.settings, self.name(topic), messages if sent is None else sent, **own)
        except (KafkaException, AssertionError):
            self.counts["writes that were not acknowledged"] += 1
            return
        for (partition, offset), message in zip(places, messages, strict=True):
            self.truth[self.name(topic), partition, offset] = message.value
        self.counts["messages"] += len(messages)

    def _transaction(self, *, commit: bool) -> None:
        messages = [self._message(self.rng.randrange(2)) for _ in range(self.rng.randint(1, 20))]
        if not commit:
            messages = [Message(json.dumps({"id": ABORTED}).encode(), None, one.partition) for one in messages]
        try:
            produce_in_transaction(self.settings, self.name(TRANSACTIONS), messages, commit=commit)
        except (KafkaException, AssertionError):
            self.counts["writes that were not acknowledged"] += 1
            return
        self.counts["transactions committed" if commit else ABORTS] += 1

    def look(self) -> dict[Place, bytes | None]:
        """What consumers see now."""
        found = dict(self._seen())
        self.truth.update(found)
        return found

    def _seen(self) -> Iterator[tuple[Place, bytes | None]]:
        for topic in PARTITIONS:
            for message in consume(self.settings, self.name(topic), range(self.partitions(topic))):
                yield (message.topic(), message.partition(), message.offset()), message.value()

    def compacted_away(self, now: Mapping[Place, bytes | None]) -> int:
        """`now`: what consumers see."""
        return sum(place[0] == self.name(COMPACTED) and place not in now for place in self.truth)

    def stored_twice(self, now: Mapping[Place, bytes | None]) -> int:
        texts = ((value or b"").decode(errors="replace") for value in now.values())
        marks = Counter(mark for text in texts for mark in _MARK.findall(text))
        return sum(count - 1 for count in marks.values())

    def add_partition(self) -> bool:
        now = self.partitions(PLAIN)
        if now >= MOST_PARTITIONS:
            return False
        admin, name = AdminClient(self.settings), self.name(PLAIN)
        admin.create_partitions([NewPartitions(name, now + 1)])[name].result(WAIT_SECS)
        until(lambda: len(leaders(self.settings, name)) == now + 1, "a leader of the new partition")
        return True

    def forget_some(self) -> None:
        """As retention does it, whether or not it was read."""
        self.look()
        name, number = self.name(PLAIN), self.rng.randrange(self.partitions(PLAIN))
        offsets = [offset for topic, partition, offset in self.truth if (topic, partition) == (name, number)]
        if not offsets:
            return
        before = self.rng.choice(offsets)
        forget_before(self.settings, name, number, before)
        self.deleted |= {(name, number, offset) for offset in offsets if offset < before}


def _new_mark(rng: random.Random) -> str:
    return uuid.UUID(int=rng.getrandbits(128)).hex


@dataclass(frozen=True)
class Read:
    """What one table and its letters have of the topics."""

    rows: Mapping[Place, list[Any]]
    letters: Mapping[Place, int]
    lost: set[Place]


def read_table(folder: Path, state_prefix: str, source_id: str, value: str) -> Read:
    """`value`: the column that is compared."""
    rows: dict[Place, list[Any]] = {}
    columns = DeltaTable(folder).to_pyarrow_table(columns=["_source", value]).to_pydict()
    for source, found in zip(columns["_source"], columns[value], strict=True):
        topic, _, number = source["file"].rpartition("/")
        rows.setdefault((topic, int(number), source["row"]), []).append(found)
    letters, lost = Counter[Place](), set[Place]()
    for letter in DeadLetters(LocalStore(folder), state_prefix, source_id).letters():
        topic, _, number = letter["path"].rpartition("/")
        if "lost_from" in letter:
            lost |= {(topic, int(number), at) for at in range(letter["lost_from"], letter["lost_to"] + 1)}
        else:
            letters[topic, int(number), letter["row"]] = 1  # that of an attempt without a commit says the same
    return Read(rows, letters, lost)


def compare(
    topics: Topics,
    now: Mapping[Place, Any],
    read: Read,
    names: set[str],
    steps: list[str],
    decode: Decode | None = None,
) -> int:
    """Every message once. `now`: what the brokers still have; `names`: of the topics that the table is about; `decode`:
    how the table's records are had from payloads, None: the payloads are the rows. Returns how many messages were
    compared. Raises Failed."""
    compared = 0
    for place, payload in topics.truth.items():
        if place[0] not in names:
            continue
        rows, letters = read.rows.get(place, []), read.letters.get(place, 0)
        record = None if decode is None else decode(payload)
        good = decode is None or record is not None
        if not rows and not letters:
            gone = place in read.lost or (place[0] == topics.name(COMPACTED) and place not in now)
            if not gone:
                raise Failed(f"missing: {place}, {payload!r:.100}{_was(topics, place)}", steps)
            continue
        if len(rows) + letters > 1:
            raise Failed(f"doubled: {place}: {len(rows)} rows, {letters} letters", steps)
        if bool(rows) is not good:
            raise Failed(f"a row and no letter, or the other way round: {place}, {payload!r:.100}", steps)
        wanted = payload if record is None else record["id"]
        if rows and rows[0] != wanted:
            raise Failed(f"changed: {place}: {rows[0]!r:.100}; expected {wanted!r:.100}", steps)
        compared += 1
    for place, values in read.rows.items():
        if place not in topics.truth and not _is_known(values[0], topics.sent):
            raise Failed(f"nobody's: {place}: {values[0]!r:.100}", steps)
    return compared


def _was(topics: Topics, place: Place) -> str:
    return ", which retention took" if place in topics.deleted else ""


def json_record(payload: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(payload or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _is_known(value: Any, sent: set[str]) -> bool:
    """Whether it holds a mark of what was sent and not acknowledged, or nothing that could have one."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return value is None or any(mark in sent for mark in _MARK.findall(text))
