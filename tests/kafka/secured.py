"""A broker with a listener for each protocol, and what a source says to read from it."""

import json
from pathlib import Path

from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.security import KEY_PASSWORD, Listener, Security

READER, PASSWORD = "reader", "right-password"
LISTENERS = {
    "SSL": Listener("TLS", "SSL"),
    "mutual": Listener("MUTUAL", "SSL", wants_certificate=True),
    "elsewhere": Listener("OTHER", "SSL", is_elsewhere=True),
    "SASL_PLAINTEXT": Listener("LOGIN", "SASL_PLAINTEXT"),
    "SASL_SSL": Listener("BOTH", "SASL_SSL"),
}


def start_cluster(folder: Path) -> KafkaCluster:
    """Not running yet."""
    security = Security.make(folder / "tls", {READER: PASSWORD, "writer": "w-2"})
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # without a login: the brokers themselves
        "allow.everyone.if.no.acl.found": "true",
    }
    return KafkaCluster(folder / "cluster", security=security, properties=properties, listeners=[*LISTENERS.values()])


def servers(cluster: KafkaCluster, listener: str) -> str:
    return cluster.servers(LISTENERS[listener].name)


def security_of(cluster: KafkaCluster) -> Security:
    assert cluster.security is not None
    return cluster.security


def block(cluster: KafkaCluster, protocol: str, mechanism: str | None = None, **other: str | None) -> str:
    """Of a source: all that it needs for this protocol and mechanism. `other` replaces fields; None takes one out."""
    fields: dict[str, str | None] = {"protocol": protocol}
    if protocol.endswith("SSL"):
        fields["ca_location"] = str(security_of(cluster).ca_file)
    if mechanism is not None:
        fields |= {"mechanism": mechanism, "username": READER, "password": PASSWORD}
    given = {name: value for name, value in {**fields, **other}.items() if value is not None}
    return f"security: {json.dumps(given)}"


def certificate(security: Security) -> dict[str, str | None]:
    """Fields of a client that has one."""
    return {
        "certificate_location": str(security.client_file),
        "key_location": str(security.client_key_file),
        "key_password": KEY_PASSWORD,
    }
