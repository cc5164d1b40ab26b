"""A Kafka cluster of one broker or several."""

import base64
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from infra.local.kafka.broker import Broker
from infra.local.kafka.java import kafka_java
from infra.local.kafka.ports import free_ports
from infra.local.kafka.security import Listener, Security
from infra.local.kafka.server_properties import Ports, as_text, server_properties

START_SECS = 120.0
HEAP_MB = 384
_PAUSE_SECS = 0.1


class KafkaCluster:
    """Brokers on 127.0.0.1, each of them a controller too, counted from 1. They run during the block of a `with`, and
    are killed at its end, or when this process ends in any other way.

    `folder` is new or empty, and gets a folder for each broker. `security`: what clients have to use; None: nothing.
    `listeners`: further ones of each broker, which need `security`. `properties` replace settings of all brokers, or
    add some. `heap_mb`: megabytes of heap for each broker. `plugins`: jars with classes that `properties` name.

    Topics are never made by themselves. With three brokers or more, topics have three replicas, of which two must have
    a message before it is acknowledged: any one broker may be down.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        security: Security | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = HEAP_MB,
        plugins: Sequence[Path] = (),
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.cluster_id = _new_id()
        self.security = security
        self._listeners = [one.name for one in listeners]
        self._ports = [_ports(len(listeners)) for _ in range(brokers)]
        self._brokers = {
            node: Broker(node, folder / f"broker-{node}", heap_mb, plugins) for node in range(1, brokers + 1)
        }
        for node, broker in self._brokers.items():
            settings = server_properties(node, self._ports, broker.data, security, listeners, properties or {})
            broker.settings.write_text(as_text(settings))

    def __enter__(self) -> Self:
        """Raises KafkaFailed if the brokers do not answer within START_SECS, and SetupError without Java or jars."""
        with kafka_java().missing_classes() as is_missing:
            if is_missing:
                _archive_classes()
        self._run(archiving=False)
        return self

    def _run(self, *, archiving: bool) -> None:
        try:
            self._format()
            for broker in self._brokers.values():
                broker.start(archiving=archiving)
            self.wait()
        except BaseException:
            self._kill_all()
            raise

    def __exit__(self, *_: object) -> None:
        self._kill_all()

    @property
    def nodes(self) -> list[int]:
        """The ids of all brokers, also of those that are down."""
        return [*self._brokers]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{ports.client}" for ports in self._ports)

    def servers(self, listener: str) -> str:
        """As `bootstrap_servers`, of a further listener."""
        index = self._listeners.index(listener)
        return ",".join(f"127.0.0.1:{ports.further[index]}" for ports in self._ports)

    def client_settings(self) -> dict[str, Any]:
        """librdkafka's: where the cluster is, and what its security wants of the first user."""
        own = self.security.client_settings() if self.security else {}
        return {"bootstrap.servers": self.bootstrap_servers, **own}

    def log(self, node: int) -> Path:
        """The file with what the broker logs."""
        return self._brokers[node].log

    def stop(self, node: int) -> None:
        """As an operator does (SIGTERM), and wait for the end. Raises KafkaFailed if it takes longer than a minute."""
        self._brokers[node].stop()

    def kill(self, node: int) -> None:
        """SIGKILL: nothing is flushed or handed over."""
        self._brokers[node].kill()

    def start(self, node: int, *, wait: bool = True) -> None:
        """Again, with the same folder and ports. `wait`: until it answers, for which most of the brokers have to run.
        Raises KafkaFailed."""
        self._brokers[node].start()
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until each broker that was started answers, and knows all of them. Raises KafkaFailed after START_SECS, or
        when one ended by itself."""
        deadline = time.monotonic() + START_SECS
        started = {node: broker for node, broker in self._brokers.items() if broker.is_wanted}
        for node, broker in started.items():
            client = self._admin(node)
            while not started.keys() <= self._known_to(client):
                if not broker.is_running:
                    raise broker.failure("ended by itself")
                if time.monotonic() > deadline:
                    raise broker.failure(f"did not answer, or did not find the others, within {START_SECS:g} s")
                time.sleep(_PAUSE_SECS)

    def _known_to(self, client: AdminClient) -> set[int]:
        try:
            return {*client.list_topics(timeout=2).brokers}
        except KafkaException:
            return set()

    def _admin(self, node: int) -> AdminClient:
        own = f"127.0.0.1:{self._ports[node - 1].client}"
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 200}
        return AdminClient({**self.client_settings(), "bootstrap.servers": own, **quiet})

    def _format(self) -> None:
        options = self.security.format_options() if self.security else []
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            done = [pool.submit(broker.format, self.cluster_id, options) for broker in self._brokers.values()]
        for one in done:
            one.result()

    def _kill_all(self) -> None:
        for broker in self._brokers.values():
            broker.kill()


def _ports(further: int) -> Ports:
    client, internal, controller, *others = free_ports(3 + further)
    return Ports(client, internal, controller, tuple(others))


def _archive_classes() -> None:
    """Once for all clusters, by starting and stopping one."""
    with TemporaryDirectory() as folder:
        cluster = KafkaCluster(Path(folder) / "cluster")
        cluster._run(archiving=True)
        cluster.stop(1)


def _new_id() -> str:
    """A UUID in 22 characters. Kafka's tools would take one that begins with a dash for an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made
