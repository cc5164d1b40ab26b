"""A broker whose clients log in as at Amazon MSK: with IAM, or with SCRAM and a secret."""

import zipfile
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from blizzard.setup.java import find_jdk
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.java import kafka_java
from infra.local.kafka.security import MECHANISM, Security
from infra.setup.logstore import compile_java

REGION = "eu-west-1"
ACCESS_KEY, SECRET_KEY = "AKIAREADER", "kept/by+the-reader"
READER, GROUP = "reader", "watched"
_SOURCE = Path(__file__).with_name("MskTokens.java")
_ANY = "*"


def start_cluster(folder: Path, *, reader_password: str) -> KafkaCluster:
    """Not running yet. `admin` may do everything; the owner of the key, and `reader`, only what `allow` gives them."""
    security = Security.make(folder / "tls", {"admin": "a-1", READER: reader_password})
    prefix = "listener.name.client.oauthbearer"
    keys = f'region="{REGION}" accessKey="{ACCESS_KEY}" secretKey="{SECRET_KEY}"'
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    properties = {
        "sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER",
        # The claim is for a login of the broker itself, which Kafka wants and which is never used.
        f"{prefix}.sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="broker" {keys};',
        f"{prefix}.sasl.server.callback.handler.class": "io.github.blizzard.kafka.MskTokens",
        "connections.max.reauth.ms": "3600000",  # without it a connection outlives its token
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # without a login: the brokers themselves
    }
    return KafkaCluster(folder / "cluster", security=security, properties=properties, plugins=[_plugin(folder)])


def _plugin(folder: Path) -> Path:
    classes, jar = folder / "classes", folder / "msk-tokens.jar"
    compile_java(find_jdk(), [_SOURCE], [kafka_java().jars], classes)
    with zipfile.ZipFile(jar, "w") as packed:
        for file in sorted(classes.rglob("*.class")):
            packed.write(file, file.relative_to(classes))
    return jar


def allow(cluster: KafkaCluster) -> None:
    """What docs/kafka.md says that a reader needs, and no more: DescribeCluster; DescribeTopic and ReadData of all
    topics; DescribeGroup and AlterGroup of GROUP."""
    wanted = [
        (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, _ANY, AclOperation.DESCRIBE),
        (ResourceType.TOPIC, _ANY, AclOperation.READ),
        (ResourceType.GROUP, GROUP, AclOperation.DESCRIBE),
        (ResourceType.GROUP, GROUP, AclOperation.READ),
    ]
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user in (ACCESS_KEY, READER)
        for kind, name, operation in wanted
    ]
    admin = AdminClient(cluster.client_settings())
    for future in admin.create_acls(bindings).values():
        future.result(10)


def accepted(cluster: KafkaCluster) -> list[str]:
    """A word for each token that the broker has accepted, one after the other."""
    lines = cluster.log(1).read_text().splitlines()
    return [line.rpartition(": ")[2] for line in lines if line.startswith("token accepted: ")]


def refused(cluster: KafkaCluster) -> list[str]:
    """Why the broker has refused tokens, one after the other."""
    lines = cluster.log(1).read_text().splitlines()
    return [line.rpartition(": ")[2] for line in lines if line.startswith("token refused: ")]
