"""A bucket's notification configuration with the stack's own entry, and without: whatever others set stays."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.attacher.notification import Attachment, attached, detached, has_entry, lost, overlapping

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:blizzard-events"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:arrivals"
OWN = Attachment("blizzard-prod-AttachedLanding", "blizzard-prod-", QUEUE, "raw/")

KINDS = {
    "TopicConfigurations": ("TopicArn", TOPIC),
    "QueueConfigurations": ("QueueArn", "arn:aws:sqs:eu-west-1:123456789012:theirs"),
    "LambdaFunctionConfigurations": ("LambdaFunctionArn", "arn:aws:lambda:eu-west-1:123456789012:function:theirs"),
}
names = st.sampled_from(
    ["thumbnails", "audit", "tf-s3-queue-1", "blizzard-production-AttachedLanding", "blizzard", "é"]
)
events = st.lists(
    st.sampled_from(["s3:ObjectCreated:*", "s3:ObjectCreated:Put", "s3:ObjectRemoved:*"]), min_size=1, unique=True
)
rules = st.fixed_dictionaries(
    {"Name": st.sampled_from(["Prefix", "suffix"]), "Value": st.sampled_from(["raw/", "a%3Db/", "x", ".gz"])}
)
prefixes = st.sampled_from(["", "raw/", "raw/day=1/", "é/"])


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """What others may have set, as S3 returns it: no empty lists."""
    found: dict[str, Any] = {"EventBridgeConfiguration": {}} if draw(st.booleans()) else {}
    ids = draw(st.lists(names, max_size=5, unique=True))
    for name in ids:
        kind = draw(st.sampled_from(sorted(KINDS)))
        field, arn = KINDS[kind]
        entry: dict[str, Any] = {"Id": name, field: arn, "Events": draw(events)}
        if draw(st.booleans()):
            entry["Filter"] = {"Key": {"FilterRules": draw(st.lists(rules, min_size=1, max_size=2))}}
        found.setdefault(kind, []).append(entry)
    return found


def own(prefix: str) -> Attachment:
    return Attachment(OWN.entry_id, OWN.family, QUEUE, prefix)


def without_own(configuration: Any) -> Any:
    return detached(configuration, OWN.entry_id)


@given(configurations(), prefixes)
def test_attaching_adds_one_entry_and_changes_nothing_else(others: dict[str, Any], prefix: str) -> None:
    before = deepcopy(others)
    after = attached(others, own(prefix))
    assert others == before
    assert has_entry(after, own(prefix).entry())
    assert without_own(after) == others
    assert lost(others, after) == []


@given(configurations(), prefixes)
def test_attaching_twice_is_attaching_once(others: dict[str, Any], prefix: str) -> None:
    once = attached(others, own(prefix))
    assert attached(once, own(prefix)) is once


@given(configurations(), prefixes, prefixes)
def test_detaching_undoes_attaching_also_after_a_change(others: dict[str, Any], first: str, second: str) -> None:
    changed = attached(attached(others, own(first)), own(second))
    assert changed == attached(others, own(second))
    assert without_own(changed) == others
    assert without_own(others) is others


@given(configurations(), prefixes)
def test_another_parameter_of_the_stack_takes_the_bucket_over(others: dict[str, Any], prefix: str) -> None:
    second = Attachment("blizzard-prod-AttachedLanding2", OWN.family, QUEUE, prefix)
    moved = attached(attached(others, own("raw/")), second)
    assert moved == attached(others, second)
    assert detached(moved, OWN.entry_id) is moved, "what deletes the old one takes nothing away"


def test_an_entry_of_another_stack_with_a_similar_name_stays() -> None:
    other = {
        "Id": "blizzard-prod-2-AttachedLanding",
        "QueueArn": f"{QUEUE}-2",
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "more/"}]}},
    }
    assert attached({"QueueConfigurations": [other]}, OWN)["QueueConfigurations"] == [other, OWN.entry()]


def test_what_the_stack_left_when_it_created_the_bucket_is_taken_over() -> None:
    """CloudFormation names it at random. S3 would refuse a second one for the same objects."""
    left = {"Id": "YjVkM", "QueueArn": QUEUE, "Events": ["s3:ObjectCreated:*"]}
    by_hand = {**left, "Id": "mine", "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "more/"}]}}}
    assert attached({"QueueConfigurations": [left, by_hand]}, OWN)["QueueConfigurations"] == [by_hand, OWN.entry()]


def test_the_filter_is_encoded_and_there_is_none_without_a_prefix() -> None:
    assert own("raw/day=1/").entry()["Filter"] == {
        "Key": {"FilterRules": [{"Name": "prefix", "Value": "raw/day%3D1/"}]}
    }
    assert "Filter" not in own("").entry()


def test_an_entry_is_recognized_as_s3_returns_it() -> None:
    """With a capital, and decoded or not."""
    for value in ("raw/day%3D1/", "raw/day=1/"):
        entry = {**own("raw/day=1/").entry(), "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": value}]}}}
        configuration = {"QueueConfigurations": [entry]}
        assert attached(configuration, own("raw/day=1/")) is configuration


def their(events: list[str], prefix: str = "", suffix: str = "") -> dict[str, Any]:
    filters = [{"Name": name, "Value": value} for name, value in (("Prefix", prefix), ("Suffix", suffix)) if value]
    entry: dict[str, Any] = {"Id": "theirs", "TopicArn": TOPIC, "Events": events}
    return {"TopicConfigurations": [entry | ({"Filter": {"Key": {"FilterRules": filters}}} if filters else {})]}


@pytest.mark.parametrize(
    ("configuration", "overlaps"),
    [
        (their(["s3:ObjectCreated:*"]), True),
        (their(["s3:ObjectCreated:Put"], "raw/"), True),
        (their(["s3:ObjectRemoved:*", "s3:ObjectCreated:Copy"], "raw/a/"), True),
        (their(["s3:ObjectCreated:*"], "r", ".gz"), True),
        (their(["s3:ObjectCreated:*"], suffix=".gz"), True),
        (their(["s3:ObjectRemoved:*"]), False),
        (their(["s3:ObjectCreated:*"], "raw-2/"), False),
        (their(["s3:ObjectCreated:*"], "other/", ".gz"), False),
        ({"EventBridgeConfiguration": {}}, False),
    ],
)
def test_overlapping_entries_of_others_are_named(configuration: dict[str, Any], overlaps: bool) -> None:
    assert overlapping(configuration, OWN) == (["theirs"] if overlaps else [])


def test_its_own_entries_do_not_overlap() -> None:
    assert overlapping(attached({}, own("")), OWN) == []


def test_what_is_lost_is_named() -> None:
    before = {**their(["s3:ObjectCreated:*"]), "EventBridgeConfiguration": {}}
    assert lost(before, {}) == ["theirs", "EventBridgeConfiguration"]
    assert lost(before, {**before, **their(["s3:ObjectCreated:*"], "x/")}) == ["theirs"]
    assert lost(before, attached(before, OWN)) == []
