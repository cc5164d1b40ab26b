"""What a run says of the lag of its topics."""

import time

from tests.kafka.topic_lake import NewLake
from tests.kafka.topics import Message, create_topic

HOUR_MS = 3_600_000


def test_a_run_says_how_far_behind_it_was_and_that_it_is_so_no_longer(new_lake: NewLake) -> None:
    lake, now_ms = new_lake(partitions=3), round(time.time() * 1000)
    lake.produce(
        Message(b"a", timestamp_ms=now_ms - HOUR_MS),
        Message(b"b", timestamp_ms=now_ms - 2 * HOUR_MS),
        Message(b"c", partition=1, timestamp_ms=now_ms),
    )
    lake.run()
    before, after = lake.named("lag_measured")
    assert (before["source"], before["topic"], before["lag"], before["more"]) == ("p:clicks", lake.topic, 3, 0)
    assert 3600 <= before["lag_secs"] < 3700
    assert [(one["partition"], one["lag"]) for one in before["partitions"]] == [(0, 2), (1, 1)]
    assert 0 <= before["partitions"][1]["lag_secs"] < 100
    assert {name: after[name] for name in ("lag", "lag_secs", "partitions")} == {
        "lag": 0,
        "lag_secs": 0.0,
        "partitions": [],
    }


def test_a_run_that_finds_nothing_says_so_of_each_topic(new_lake: NewLake) -> None:
    lake = new_lake()
    other = f"{lake.topic}-other"
    create_topic(lake.settings, other)
    topics = f"topics: [{lake.topic}, {other}]"
    lake.run(kafka=topics)
    lake.events.clear()
    lake.run(kafka=topics)
    assert [(one["topic"], one["lag"]) for one in lake.named("lag_measured")] == [(lake.topic, 0), (other, 0)]


def test_a_large_partition_has_waited_since_its_first_message_whichever_task_reads_it(new_lake: NewLake) -> None:
    lake, now_ms = new_lake(), round(time.time() * 1000)
    source = "format: envelope\n                    checkpoint: {interval_bytes: 1TiB, interval_records: 100000}"
    lake.produce(*[Message(b"x", timestamp_ms=now_ms - HOUR_MS + number) for number in range(50_000)])
    lake.run(source=source)
    before, *_ = lake.named("lag_measured")
    assert (before["lag"], 3600 <= before["lag_secs"] < 3700) == (50_000, True)
    assert [one["offsets"] for one in lake.named("ranges_planned")] == [50_000], "one batch, of more than one task"
