"""Topics that brokers keep for themselves."""

from confluent_kafka.admin import AdminClient

from tests.kafka.topic_lake import NewLake, TopicLake

OFFSETS = "__consumer_offsets"


def is_there(lake: TopicLake) -> bool:
    return OFFSETS in AdminClient(dict(lake.settings)).list_topics(timeout=60).topics


def test_a_pattern_reads_no_internal_topic(new_lake: NewLake) -> None:
    """Each commit writes to it, by the group: who reads it, too, is never done."""
    lake = new_lake()

    def count(event: str) -> None:
        assert len(lake.named("messages_committed")) < 5, "it does not end"

    lake.on_event = count
    kafka = f'topic_pattern: ".*_offsets|{lake.topic}", publish_group: monitor'
    for produced in (b"a", b"b"):
        lake.produce(produced)
        lake.run(kafka=kafka)
    assert is_there(lake)
    assert lake.places() == [(0, 0), (0, 1)]


def test_an_internal_topic_is_read_if_it_is_named(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run(kafka="publish_group: monitor")
    assert is_there(lake)
    lake.source = "internal"
    lake.run(kafka=f"topics: [{OFFSETS}]")
    assert OFFSETS in {row["_source"]["file"].partition("/")[0] for row in lake.rows()}
