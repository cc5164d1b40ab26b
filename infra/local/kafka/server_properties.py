"""The settings of a broker that is its own controller, or one of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.local.kafka.security import Listener, Security

REPLICAS = 3
"""Of topics, where there are as many brokers."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one broker, on 127.0.0.1."""

    client: int
    internal: int
    controller: int
    further: tuple[int, ...] = ()
    """Of the further listeners, in their order."""


def server_properties(
    node: int,
    ports: Sequence[Ports],
    data: Path,
    security: Security | None,
    listeners: Sequence[Listener],
    more: Mapping[str, str],
) -> dict[str, str]:
    """Of the broker `node`, counted from 1. `ports`: of all brokers. `listeners`: further ones, which need `security`.
    `more` replaces and adds."""
    protocols = {"CLIENT": "SASL_SSL" if security else "PLAINTEXT", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    protocols |= {one.name: one.protocol for one in listeners}
    secured: dict[str, str] = {}
    if security is not None:
        secured = security.listener_properties("client")
        for one in listeners:
            secured |= security.further_properties(one)
    return {
        **_places(node, ports, data, listeners),
        **_replicas(len(ports)),
        **_NOTHING_IS_FORGOTTEN,
        **_SHORT_WAITS,
        **_SMALL,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        **secured,
        "auto.create.topics.enable": "false",
        **more,
    }


def _places(node: int, ports: Sequence[Ports], data: Path, listeners: Sequence[Listener]) -> dict[str, str]:
    own = ports[node - 1]
    named = {"CLIENT": own.client, "INTERNAL": own.internal}
    named |= {one.name: port for one, port in zip(listeners, own.further, strict=True)}
    clients = ",".join(f"{name}://127.0.0.1:{port}" for name, port in named.items())
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p.controller}" for n, p in enumerate(ports, 1)),
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{own.controller}",
        "advertised.listeners": clients,
        "controller.listener.names": "CONTROLLER",
        # Without SASL and TLS, as the controllers': what is tested is what clients see.
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": str(data),
    }


def _replicas(brokers: int) -> dict[str, str]:
    """One broker of three may be down."""
    replicas = str(min(brokers, REPLICAS))
    in_sync = "2" if brokers >= REPLICAS else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_NOTHING_IS_FORGOTTEN = {
    # A message may have a time of long ago; a topic may want another retention.
    "log.retention.ms": "-1",
}
_SHORT_WAITS = {
    "group.initial.rebalance.delay.ms": "0",
    # A dead broker's partitions get other leaders after this time, and a broker that was killed is admitted again.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}
_SMALL = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # 128 MB otherwise, of a heap of a few hundred.
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
}


def as_text(properties: Mapping[str, str]) -> str:
    """Of a .properties file. No value of ours has a character that would need an escape but the backslash."""
    return "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in properties.items())
