"""`schema: infer` where offsets have no message, or records no field."""

import pytest

from blizzard.errors import PermanentError
from tests.kafka.test_topic_schema_infer import NDJSON, has_table, infer, record
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import end_offset, forget_before, open_transaction, produce_in_transaction, until


def abort_messages(lake: TopicLake) -> None:
    """Waits until the marker of the transaction is there: three offsets, and no message."""
    produce_in_transaction(lake.settings, lake.topic, [b"no", b"no"], commit=False)
    until(lambda: end_offset(lake.settings, lake.topic) == 3, "the marker")


@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_offsets_without_a_message_are_no_reason_to_fail(new_lake: NewLake, start: str, same_process: bool) -> None:
    """Those of an aborted transaction, looked at once."""
    lake, kafka = new_lake(partitions=2), f"start: {start}"
    job = lake.job(NDJSON, kafka)

    def drain() -> None:
        (job if same_process else lake.job(NDJSON, kafka)).ingest.drain()

    if start == "latest":
        drain()
    abort_messages(lake)
    drain()
    drain()
    assert len(lake.named("ranges_planned")) == (1 if same_process else 2)
    assert has_table(lake) == (start == "latest")
    lake.produce(record(1, id=1))
    drain()
    drain()
    assert (lake.places(), lake.letters()) == ([(1, 0)], [])
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 2
    assert not lake.named("race_lost") + lake.named("retrying")


def test_the_marker_of_a_transaction_alone_is_no_reason_to_fail(new_lake: NewLake) -> None:
    lake, kafka = new_lake(), "start: latest, isolation: read_uncommitted"
    with open_transaction(lake.settings, lake.topic, [b"before"]):
        lake.run(NDJSON, kafka)
    until(lambda: end_offset(lake.settings, lake.topic) == 2, "the marker")
    lake.run(NDJSON, kafka)
    assert lake.named("ranges_planned")
    lake.produce(record(id=1))
    lake.run(NDJSON, kafka)
    assert lake.places() == [(0, 2)]


def test_a_partition_without_a_message_does_not_hold_up_the_others(new_lake: NewLake) -> None:
    """The first batch has room for one partition, and takes the one with the most offsets."""
    lake = new_lake(partitions=2)
    abort_messages(lake)
    lake.produce(record(1, id=1))
    lake.run(infer("checkpoint: {interval_records: 1}"))
    assert lake.places() == [(1, 0)]
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 2


def test_what_goes_before_the_first_commit_is_not_noticed(new_lake: NewLake) -> None:
    lake, kafka = new_lake(), "on_lost_offsets: stop"
    lake.produce(b"no json", b"no json")
    with pytest.raises(PermanentError, match="none of the first 2 messages"):
        lake.run(NDJSON, kafka)
    forget_before(lake.settings, lake.topic, 0, 1)
    lake.produce(record(id=1))
    lake.run(NDJSON, kafka)
    assert lake.places() == [(0, 2)]
    assert [letter["row"] for letter in lake.letters()] == [1]
    assert not lake.named("offsets_lost")


def test_records_without_a_field_are_named_as_such(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"{}", b"no json", b"{}")
    with pytest.raises(PermanentError, match="none of the 2 records in the first 3 messages has a field"):
        lake.run(NDJSON)
    assert not has_table(lake)
