"""What a message is parsed as, for every sample in events/ and for any other text."""

import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.collect.messages import FileArrived, Ignored, IgnoreReason, NotAnS3Event, is_newer, parse_message

SAMPLES = Path(__file__).parents[2] / "events"
PATH = "raw-events/date=2024-01-28/1706450400-01926abc.ndjson.gz"
HOSTILE = "raw-events/date=2024-01-28/a b+c%d é 100%25.ndjson.gz"
ETAG = "9b2cf535f27731c974343645a3985328"
MULTIPART_ETAG = "3858f62230ac3c915f300c664312c11f-19"
VERSION, OTHER_VERSION = "096fKKXTRTtl3on89fVO.nfljtsv6qko", "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e"
TS, TS_TO_THE_SECOND = 1706450400.123, 1706450400.0
SEQUENCER, LOWER_SEQUENCER = "0065B66A5C8F1D2E3A", "0065b66a5c8f1d2e3a"

S3_PUT = FileArrived("landing", PATH, 2048, ETAG, TS, SEQUENCER)
EXPECTED: dict[str, FileArrived | IgnoreReason] = {
    "s3_put": S3_PUT,
    "s3_multipart_complete": FileArrived("landing", PATH, 157286400, MULTIPART_ETAG, TS, SEQUENCER),
    "s3_put_versioned": FileArrived("landing", PATH, 2048, ETAG, TS, SEQUENCER, VERSION),
    "s3_copy": S3_PUT,
    "s3_hostile_key": FileArrived("landing", HOSTILE, 2048, ETAG, TS, SEQUENCER),
    "s3_delete": IgnoreReason.NOT_AN_ARRIVAL,
    "s3_delete_marker": IgnoreReason.NOT_AN_ARRIVAL,
    "s3_folder_marker": IgnoreReason.FOLDER_MARKER,
    "s3_test_event": IgnoreReason.TEST_EVENT,
    "sns_wrapped": S3_PUT,
    "sns_raw": S3_PUT,
    "eventbridge_created": FileArrived("landing", PATH, 2048, ETAG, TS_TO_THE_SECOND, LOWER_SEQUENCER),
    "eventbridge_hostile_key": FileArrived(
        "landing", HOSTILE, 2048, ETAG, TS_TO_THE_SECOND, LOWER_SEQUENCER, OTHER_VERSION
    ),
    "eventbridge_deleted": IgnoreReason.NOT_AN_ARRIVAL,
}


def sample(name: str) -> Any:
    """The body of the one message in a sample, decoded."""
    return json.loads(json.loads((SAMPLES / f"{name}.json").read_text())["Records"][0]["body"])


def changed(name: str, path: str, value: object) -> str:
    """A sample's body with one value replaced, or removed where `value` is ..."""
    body = sample(name)
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    node = body
    for step in way:
        node = node[step]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return json.dumps(body)


@pytest.mark.parametrize("name", EXPECTED)
def test_each_sample_is_parsed_as_expected(name: str) -> None:
    [event] = parse_message(json.dumps(sample(name)))
    assert (event.reason if isinstance(event, Ignored) else event) == EXPECTED[name]


def test_every_sample_in_the_folder_is_used() -> None:
    others = {path.stem for path in SAMPLES.iterdir()} - EXPECTED.keys()
    assert {path.stem for path in SAMPLES.iterdir()} >= EXPECTED.keys()
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    assert {name for name in others if not any(name in text for text in tests)} == set()


def test_all_records_of_a_message_are_read_in_order() -> None:
    records = [sample(name)["Records"][0] for name in ("s3_hostile_key", "s3_delete", "s3_put")]
    first, second, third = parse_message(json.dumps({"Records": records}))
    assert (first, third) == (EXPECTED["s3_hostile_key"], S3_PUT)
    assert isinstance(second, Ignored)


def test_a_message_without_records_gives_no_events() -> None:
    assert parse_message('{"Records": []}') == []


@pytest.mark.parametrize("name", ["eventbridge_created", "s3_test_event"])
def test_any_message_may_be_wrapped_by_sns(name: str) -> None:
    envelope = {**sample("sns_wrapped"), "Message": json.dumps(sample(name))}
    assert parse_message(json.dumps(envelope)) == parse_message(json.dumps(sample(name)))


@pytest.mark.parametrize(
    "name",
    [
        "ObjectRemoved:Delete",
        "ObjectRestore:Completed",
        "ObjectTagging:Put",
        "LifecycleExpiration:Delete",
        "ObjectAcl:Put",
    ],
)
def test_an_event_other_than_an_arrival_is_ignored_and_named(name: str) -> None:
    [event] = parse_message(changed("s3_put", "Records/0/eventName", name))
    assert isinstance(event, Ignored)
    assert event.reason is IgnoreReason.NOT_AN_ARRIVAL
    assert name in event.detail


@pytest.mark.parametrize("name", ["ObjectCreated:Put", "ObjectCreated:Post", "ObjectCreated:Copy"])
def test_every_way_to_create_an_object_is_an_arrival(name: str) -> None:
    assert parse_message(changed("s3_put", "Records/0/eventName", name)) == [S3_PUT]


def test_a_later_minor_version_of_the_format_is_read_without_its_new_fields() -> None:
    body = json.loads(changed("s3_put", "Records/0/eventVersion", "2.9"))
    body["Records"][0]["s3"]["object"]["colour"] = {"blue": [1]}
    assert parse_message(json.dumps(body)) == [S3_PUT]


def test_a_folder_marker_is_ignored_whatever_its_size() -> None:
    [event] = parse_message(changed("s3_folder_marker", "Records/0/s3/object/size", 12))
    assert event == Ignored(IgnoreReason.FOLDER_MARKER, "s3://landing/raw-events/date=2024-01-28/")


def test_an_empty_file_is_an_arrival() -> None:
    [event] = parse_message(changed("s3_put", "Records/0/s3/object/size", 0))
    assert isinstance(event, FileArrived)
    assert event.size == 0


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on Tokyo's time."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("absent", [..., None, ""])
def test_version_and_sequencer_may_be_absent(absent: object) -> None:
    body = json.loads(changed("s3_put_versioned", "Records/0/s3/object/versionId", absent))
    if absent is ...:
        del body["Records"][0]["s3"]["object"]["sequencer"]
    else:
        body["Records"][0]["s3"]["object"]["sequencer"] = absent
    [event] = parse_message(json.dumps(body))
    assert isinstance(event, FileArrived)
    assert (event.version_id, event.sequencer) == (None, None)


@pytest.mark.parametrize(
    "text", ["2024-01-28T14:00:00.123Z", "2024-01-28T15:00:00.123+01:00", "2024-01-28T14:00:00.123"]
)
def test_the_event_time_is_in_unix_seconds_and_utc_by_default(text: str, far_from_utc: None) -> None:
    [event] = parse_message(changed("s3_put", "Records/0/eventTime", text))
    assert isinstance(event, FileArrived)
    assert event.event_ts == TS


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999-23:59"])
def test_the_first_and_last_times_of_the_calendar_are_accepted(text: str) -> None:
    assert len(parse_message(changed("s3_put", "Records/0/eventTime", text))) == 1


def test_quotes_around_an_etag_are_removed() -> None:
    assert parse_message(changed("s3_put", "Records/0/s3/object/eTag", f'"{ETAG}"')) == [S3_PUT]


OBJECT = "Records/0/s3/object"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("", "not JSON", id="nothing"),
        pytest.param("hello", "begins 'hello'", id="text"),
        pytest.param("[" * 100_000, "RecursionError", id="nested-lists"),
        pytest.param('{"a":' * 100_000, "RecursionError", id="nested-objects"),
        pytest.param('{"Records": [' + "9" * 5_000 + "]}", "not JSON", id="huge-number"),
        pytest.param("[]", "holds a list", id="list"),
        pytest.param("null", "holds missing", id="null"),
        pytest.param("{}", "nothing at all", id="empty-object"),
        pytest.param('{"hello": 1}', "'hello'", id="other-object"),
        pytest.param('{"Records": {}}', "Records is an object", id="records-no-list"),
        pytest.param('{"Records": [7]}', "eventSource is missing", id="record-no-object"),
        pytest.param('{"Records": [{"eventSource": "aws:ses"}]}', "eventVersion is missing", id="other-records"),
        pytest.param(changed("s3_put", "Records/0/eventSource", "aws:ses"), "'aws:ses'", id="other-service"),
        pytest.param(changed("s3_put", "Records/0/eventVersion", "3.0"), "'3.0'", id="new-major-version"),
        pytest.param(changed("s3_put", "Records/0/eventName", 5), "eventName is 5", id="name-no-text"),
        pytest.param(changed("s3_put", "Records/0/eventTime", "today"), "'today'", id="no-time"),
        pytest.param(changed("s3_put", "Records/0/s3/bucket", ...), "s3.bucket.name is missing", id="no-bucket"),
        pytest.param(changed("s3_put", f"{OBJECT}/key", ...), "s3.object.key is missing", id="no-key"),
        pytest.param(changed("s3_put", f"{OBJECT}/key", ""), "s3.object.key is ''", id="empty-key"),
        pytest.param(changed("s3_put", f"{OBJECT}/key", "a%FF"), "does not decode", id="key-not-utf-8"),
        pytest.param(changed("s3_put", f"{OBJECT}/key", "a\ud800"), "not valid Unicode", id="key-half-surrogate"),
        pytest.param(changed("s3_put", f"{OBJECT}/key", "%C3%A9" * 513), "1026 bytes", id="key-too-long"),
        pytest.param(changed("s3_put", f"{OBJECT}/size", ...), "s3.object.size is missing", id="no-size"),
        pytest.param(changed("s3_put", f"{OBJECT}/size", -1), "size is -1", id="negative-size"),
        pytest.param(changed("s3_put", f"{OBJECT}/size", 2**63), "expected a number of bytes", id="size-too-large"),
        pytest.param(changed("s3_put", f"{OBJECT}/size", True), "size is True", id="size-no-number"),
        pytest.param(changed("s3_put", f"{OBJECT}/size", 1.5), "size is 1.5", id="size-not-whole"),
        pytest.param(changed("s3_put", f"{OBJECT}/eTag", ...), "s3.object.eTag is missing", id="no-etag"),
        pytest.param(changed("s3_put", f"{OBJECT}/eTag", '""'), "eTag is empty", id="empty-etag"),
        pytest.param(changed("s3_put", f"{OBJECT}/eTag", "e" * 2000), "2000 bytes", id="etag-too-long"),
        pytest.param(changed("s3_put", f"{OBJECT}/sequencer", "xyz"), "hexadecimal", id="sequencer-not-hex"),
        pytest.param(changed("s3_put", f"{OBJECT}/versionId", 3), "versionId is 3", id="version-no-text"),
        pytest.param(changed("sns_wrapped", "Type", "SubscriptionConfirmation"), "SubscribeURL", id="sns-confirmation"),
        pytest.param(changed("sns_wrapped", "Message", "hi"), "the SNS Message is not JSON", id="sns-text"),
        pytest.param(changed("sns_wrapped", "Message", {}), "Message is an object", id="sns-not-text"),
        pytest.param(changed("eventbridge_created", "source", "aws.ec2"), "'source'", id="other-eventbridge-source"),
        pytest.param(changed("eventbridge_created", "detail", []), "detail.bucket.name is missing", id="no-detail"),
        pytest.param(
            changed("eventbridge_created", "detail/object/key", "k" * 1025), "1025 bytes", id="eb-key-too-long"
        ),
    ],
)
def test_a_message_that_is_not_an_s3_event_is_refused_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(NotAnS3Event) as refusal:
        parse_message(body)
    assert reason in str(refusal.value)
    assert "find out what else sends" in str(refusal.value)


def test_the_reason_of_a_refusal_is_short_and_printable() -> None:
    with pytest.raises(NotAnS3Event) as refusal:
        parse_message(changed("s3_put", "Records/0/eventSource", "\ud800\n\x1b[31m" * 50))
    assert len(str(refusal.value)) < 600
    assert str(refusal.value).isascii()
    assert str(refusal.value).isprintable()


def test_a_message_with_one_bad_record_is_refused() -> None:
    both = {"Records": [*sample("s3_put")["Records"], {"eventSource": "aws:s3"}]}
    with pytest.raises(NotAnS3Event):
        parse_message(json.dumps(both))


class TestSequencers:
    @pytest.mark.parametrize(
        ("sequencer", "than", "answer"),
        [
            ("0A", "09", True),
            ("09", "0A", False),
            ("0a", "09", True),
            ("0A", "0a", False),
            ("1", "0FFFF", True),
            ("0FFFF", "1", False),
            ("0A", "0A00", False),
            ("0A01", "0A", True),
        ],
    )
    def test_sequencers_compare_padded_to_the_right(self, sequencer: str, than: str, answer: bool) -> None:
        assert is_newer(sequencer, than) is answer

    @given(st.lists(st.text("0123456789ABCDEF", min_size=1, max_size=20), min_size=3, max_size=3))
    def test_the_order_is_total(self, sequencers: list[str]) -> None:
        a, b, c = sequencers
        assert not (is_newer(a, b) and is_newer(b, a))
        assert not (is_newer(a, b) and is_newer(b, c)) or is_newer(a, c)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def understood(body: str) -> list[FileArrived | Ignored] | None:
    """The events of a message, None when it is refused; any other exception fails the test."""
    try:
        return parse_message(body)
    except NotAnS3Event:
        return None


@given(st.text() | JSON_VALUES.map(json.dumps))
def test_any_text_or_json_is_parsed_or_refused(body: str) -> None:
    assert understood(body) in (None, [])


def places(node: object, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the steps that lead there."""
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [way] * bool(way) + [place for step, inner in steps for place in places(inner, (*way, step))]


@st.composite
def damaged(draw: Callable[..., Any]) -> str:
    """A sample with one value anywhere in it replaced by something else."""
    body = copy.deepcopy(sample(draw(st.sampled_from(sorted(EXPECTED)))))
    *way, last = draw(st.sampled_from(places(body)))
    node = body
    for step in way:
        node = node[step]
    node[last] = draw(JSON_VALUES)
    return json.dumps(body)


@given(damaged())
def test_a_damaged_event_is_refused_or_gives_values_that_can_be_stored(body: str) -> None:
    for event in understood(body) or []:
        if isinstance(event, FileArrived):
            assert 0 < len(event.key.encode()) <= 1024
            assert 0 <= event.size < 2**63
            assert "".join([event.bucket, event.etag, event.sequencer or "", event.version_id or ""]).encode()
        else:
            assert event.detail.encode()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_any_key_survives_the_encodings_of_s3_and_eventbridge(key: str) -> None:
    assume(not key.endswith("/"))
    [through_s3] = parse_message(changed("s3_put", f"{OBJECT}/key", quote_plus(key, safe="/*")))
    [through_eventbridge] = parse_message(changed("eventbridge_created", "detail/object/key", key))
    assert isinstance(through_s3, FileArrived)
    assert isinstance(through_eventbridge, FileArrived)
    assert through_s3.key == through_eventbridge.key == key
