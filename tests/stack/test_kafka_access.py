"""What the shipped template lets the job do with Kafka's brokers and their password."""

from typing import Any

import pytest

from blizzard.kafka.connect import GROUP
from infra.template.translate import Template
from tests.stack.test_account import KEY, NETWORK, roles, statements
from tests.stack.test_template import chosen, refused

CLUSTER = "arn:aws:kafka:eu-west-1:123456789012:cluster/events/1234abcd-12ab-34cd-56ef-1234567890ab-1"
TOPICS = CLUSTER.replace(":cluster/", ":topic/")
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:AmazonMSK_events-AbCdEf"


def grants(template: Template, word: str) -> dict[str, Any]:
    """By the Sid, of all roles: the statements with this word. Only the job may have any."""
    found = {role: [s for s in statements(template, role).values() if word in str(s)] for role in roles(template)}
    assert {role for role, held in found.items() if held} <= {"JobRole"}
    return {statement["Sid"]: statement for statement in found["JobRole"]}


def of_the_cluster(kind: str) -> dict[str, Any]:
    return {"Fn::Join": [f":{kind}/", {"Fn::Split": [":cluster/", {"Ref": "KafkaClusterArn"}]}]}


def test_without_a_cluster_and_a_secret_nobody_may_use_any() -> None:
    template = chosen()
    assert not grants(template, "kafka-cluster:")
    assert not grants(template, "secretsmanager")


def test_the_job_may_read_all_topics_of_the_cluster_and_write_none() -> None:
    found = grants(chosen(KafkaClusterArn=CLUSTER, **NETWORK), "kafka-cluster:")
    del found["NameAGroup"]
    assert found == {
        "ConnectToTheBrokers": {
            "Sid": "ConnectToTheBrokers",
            "Effect": "Allow",
            "Action": ["kafka-cluster:Connect", "kafka-cluster:DescribeCluster"],
            "Resource": {"Ref": "KafkaClusterArn"},
        },
        "ReadTopics": {
            "Sid": "ReadTopics",
            "Effect": "Allow",
            "Action": ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"],
            "Resource": {"Fn::Sub": ["${Topics}/*", {"Topics": of_the_cluster("topic")}]},
        },
    }


def test_the_job_may_read_no_other_topics_than_those_that_are_named() -> None:
    named = chosen(KafkaClusterArn=CLUSTER, KafkaTopicArns=f"{TOPICS}/clicks,{TOPICS}/orders-*", **NETWORK)
    (read,) = [found for sid, found in grants(named, "kafka-cluster:ReadData").items() if sid == "ReadTopics"]
    assert read["Resource"] == {"Fn::Split": [",", {"Ref": "KafkaTopicArns"}]}


def test_the_job_may_write_the_offsets_of_the_published_group_and_of_the_one_that_stays_empty() -> None:
    none = {"Fn::Sub": [f"${{Groups}}/{GROUP}", {"Groups": of_the_cluster("group")}]}
    published = {"Fn::Sub": ["${Groups}/${KafkaPublishGroup}", {"Groups": of_the_cluster("group")}]}
    for group, resources in (("", [none]), ("monitor", [none, published])):
        found = grants(chosen(KafkaClusterArn=CLUSTER, KafkaPublishGroup=group, **NETWORK), "kafka-cluster:")
        assert found["NameAGroup"]["Action"] == ["kafka-cluster:DescribeGroup", "kafka-cluster:AlterGroup"]
        assert found["NameAGroup"]["Resource"] == resources


def test_the_job_may_read_these_secrets_and_decrypt_them_through_the_service_alone() -> None:
    found = grants(chosen(KafkaSecretArns=SECRET, KafkaSecretKmsKeyArn=KEY), "secretsmanager")
    read, decrypt = found["ReadPasswords"], found["DecryptPasswords"]
    assert (read["Action"], read["Resource"]) == (
        "secretsmanager:GetSecretValue",
        {"Fn::Split": [",", {"Ref": "KafkaSecretArns"}]},
    )
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", {"Ref": "KafkaSecretKmsKeyArn"})
    assert decrypt["Condition"]["StringEquals"] == {
        "kms:ViaService": {"Fn::Sub": "secretsmanager.${AWS::Region}.${AWS::URLSuffix}"}
    }
    assert {*grants(chosen(KafkaSecretArns=SECRET), "secretsmanager")} == {"ReadPasswords"}


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"KafkaClusterArn": CLUSTER}, "BrokersCanBeReached"),
        ({"KafkaTopicArns": f"{TOPICS}/clicks"}, "TopicsBelongToACluster"),
        ({"KafkaPublishGroup": "monitor"}, "GroupBelongsToACluster"),
        ({"KafkaSecretKmsKeyArn": KEY}, "KeyBelongsToASecret"),
    ],
)
def test_parameters_that_belong_together(parameters: dict[str, str], rule: str) -> None:
    (text,) = refused(**parameters)
    assert text.startswith(f"{rule}: With {next(iter(parameters))}, ")


@pytest.mark.parametrize(
    "parameters",
    [
        {"KafkaClusterArn": CLUSTER, **NETWORK},
        {"KafkaClusterArn": CLUSTER, "ApplicationId": "00f1982r1uukb925"},
        {"KafkaClusterArn": CLUSTER.replace("aws:", "aws-cn:"), "KafkaPublishGroup": "a.b_c-d", **NETWORK},
        {"KafkaClusterArn": CLUSTER, "KafkaTopicArns": f"{TOPICS}/a.b_c-d", **NETWORK},
        {"KafkaClusterArn": CLUSTER, "KafkaTopicArns": f"{TOPICS}/clicks,{TOPICS}/orders-*", **NETWORK},
        {"KafkaSecretArns": SECRET, "KafkaSecretKmsKeyArn": KEY},
        {"KafkaSecretArns": f"{SECRET},{SECRET}2"},
    ],
)
def test_values_that_are_accepted(parameters: dict[str, str]) -> None:
    assert refused(**parameters) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KafkaClusterArn", CLUSTER.replace(":cluster/", ":topic/")),
        ("KafkaClusterArn", f"{CLUSTER}/*"),
        ("KafkaClusterArn", "*"),
        ("KafkaTopicArns", "clicks"),
        ("KafkaTopicArns", "*"),
        ("KafkaTopicArns", f"{TOPICS}/*"),
        ("KafkaTopicArns", f"{TOPICS}/cl*ks"),
        ("KafkaTopicArns", f"{TOPICS}/clicks, {TOPICS}/orders"),
        ("KafkaTopicArns", CLUSTER),
        ("KafkaSecretArns", "AmazonMSK_events"),
        ("KafkaSecretArns", f"{SECRET}*"),
        ("KafkaSecretKmsKeyArn", KEY.replace("key/", "alias/")),
    ],
)
def test_values_that_are_refused(name: str, value: str) -> None:
    more = {"KafkaSecretArns": SECRET} if name == "KafkaSecretKmsKeyArn" else NETWORK
    texts = refused(**{**more, name: value})
    assert any(text.startswith(f"{name}: ") and text.endswith(f", found {value!r}") for text in texts)


def test_a_group_with_a_wildcard_is_refused() -> None:
    (text,) = refused(KafkaClusterArn=CLUSTER, KafkaPublishGroup="*", **NETWORK)
    assert text.startswith("KafkaPublishGroup: ")


def test_the_refusal_of_a_key_without_a_secret_names_the_parameter_that_is_missing() -> None:
    (text,) = refused(KafkaSecretKmsKeyArn=KEY)
    assert "KafkaSecretArns must name the secrets" in text
