"""What happens to topics and tables while a source reads one into the other: nothing is lost, doubled or silent."""

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from blizzard.errors import PermanentError, RecoveryError
from tests.kafka import topics
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import WAIT_SECS, Message, create_topic, delete_topic, leaders, until


def forget_before(lake: TopicLake, offset: int, partition: int = 0) -> None:
    topics.forget_before(lake.settings, lake.topic, partition, offset)


def add_partitions(lake: TopicLake, total: int) -> None:
    admin = AdminClient(lake.settings)
    admin.create_partitions([NewPartitions(lake.topic, total)])[lake.topic].result(WAIT_SECS)
    until(lambda: len(leaders(lake.settings, lake.topic)) == total, "leaders of the new partitions")


def unreadable(lake: TopicLake, *, newest: int = 1) -> None:
    """Takes the checkpoints out of the newest commits, as another program's rewrite of the log may, and the copy."""
    for file in sorted((lake.table / "_delta_log").glob("*.json"))[-newest:]:
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for action in actions:
            action.get("commitInfo", {}).pop("userMetadata", None)
        file.write_text("\n".join(map(json.dumps, actions)))
    (lake.table / "_blizzard" / "p_clicks_checkpoint.json").unlink()


def test_messages_that_are_gone_stop_the_source_and_say_which(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"0", b"1")
    lake.run()
    lake.produce(*[b"x"] * 4)
    forget_before(lake, 5)
    with pytest.raises(RecoveryError, match=r"offsets 2 to 4 of .*/0 are gone before they were read: 3 at most"):
        lake.run()
    assert lake.places() == [(0, 0), (0, 1)]


def test_a_gap_becomes_a_dead_letter_if_the_source_says_so(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"0", b"1")
    lake.run(kafka="on_lost_offsets: continue")
    lake.produce(*[b"x"] * 4)
    forget_before(lake, 5)
    lake.run(kafka="on_lost_offsets: continue")
    assert lake.places() == [(0, 0), (0, 1), (0, 5)]
    [letter] = lake.letters()
    assert (letter["path"], letter["row"]) == (f"{lake.topic}/0", 2)
    assert (letter["lost_from"], letter["lost_to"]) == (2, 4)
    assert [event["partition"] for event in lake.named("offsets_lost")] == [f"{lake.topic}/0"]


def test_a_gap_before_messages_that_are_not_there_yet_waits_for_them(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"0")
    lake.run(kafka="on_lost_offsets: continue")
    lake.produce(b"1", b"2")
    forget_before(lake, 3)
    lake.run(kafka="on_lost_offsets: continue")
    assert lake.letters() == []
    [event] = lake.named("offsets_lost")
    assert event["error"].startswith(f"offsets 1 to 2 of {lake.topic}/0 are gone")
    assert "the dead letter comes with the source's next messages" in event["error"]
    lake.produce(b"3")
    lake.run(kafka="on_lost_offsets: continue")
    assert lake.places() == [(0, 0), (0, 3)]
    assert [letter["row"] for letter in lake.letters()] == [1]


def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"old", b"old")
    lake.run()
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"new", b"new", b"new")
    with pytest.raises(RecoveryError, match=r"was deleted and made again.*a source of its own, under a new name"):
        lake.run()
    assert len(lake.rows()) == 2


def test_the_remedy_for_a_topic_that_was_made_again_doubles_nothing(new_lake: NewLake) -> None:
    """As the error says it: the topic goes out of the source, and into one of its own."""
    lake, other = new_lake(), new_lake()
    lake.produce(b"old")
    other.produce(b"other")
    lake.run(kafka=f"topics: [{lake.topic}, {other.topic}]")
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"new")
    other.produce(b"other, later")
    lake.run(kafka=f"topics: [{other.topic}]")
    lake.source = "own"
    lake.run()
    payloads = [row["message_payload"] for row in lake.rows()]
    assert sorted(payloads) == [b"new", b"old", b"other", b"other, later"]


def test_a_topic_that_is_made_again_while_it_is_read_is_not_committed(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"old")
    lake.run()
    lake.produce(b"old")

    def make_again(event: str) -> None:
        if event == "ranges_planned":
            lake.on_event = lambda event: None
            delete_topic(lake.settings, lake.topic)
            create_topic(lake.settings, lake.topic)
            lake.produce(b"new", b"new")

    lake.on_event = make_again
    with pytest.raises(RecoveryError, match="was deleted and made again"):
        lake.run()
    assert [row["message_payload"] for row in lake.rows()] == [b"old"]


def test_new_partitions_are_read_from_their_beginning(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run(kafka="start: latest")
    add_partitions(lake, 3)
    lake.produce(Message(b"b", partition=2))
    lake.run(kafka="start: latest")
    assert lake.places() == [(2, 0)]


def test_a_partition_that_is_added_while_a_run_goes_on_is_read_by_this_run(new_lake: NewLake) -> None:
    """Its client knows the topic's partitions of before."""
    lake = new_lake()
    job = lake.job()
    lake.produce(b"old")
    job.ingest.drain()
    add_partitions(lake, 2)
    lake.produce(Message(b"new", partition=1))
    job.ingest.drain()
    assert lake.places() == [(0, 0), (1, 0)]


def test_what_is_gone_of_a_new_partition_is_not_passed_in_silence(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    add_partitions(lake, 2)
    lake.produce(*[Message(b"b", partition=1)] * 3)
    forget_before(lake, 2, partition=1)
    with pytest.raises(RecoveryError, match=r"offsets 0 to 1 of .*/1 are gone"):
        lake.run()
    lake.run(kafka="on_lost_offsets: continue")
    assert lake.places() == [(0, 0), (1, 2)]
    assert [(letter["lost_from"], letter["lost_to"]) for letter in lake.letters()] == [(0, 1)]


def test_a_pattern_finds_topics_that_are_made_later(new_lake: NewLake) -> None:
    lake, other = new_lake(), new_lake()
    lake.produce(b"a")
    pattern = f"topic_pattern: '{lake.topic}.*'"
    lake.run(kafka=pattern)
    create_topic(lake.settings, later := f"{lake.topic}-later")
    lake.topic = later
    lake.produce(b"b")
    other.produce(b"not this")
    lake.run(kafka=pattern)
    assert {row["message_payload"] for row in lake.rows()} == {b"a", b"b"}
    assert len(lake.rows()) == 2


def test_a_lost_checkpoint_is_rebuilt_from_the_txns_of_the_partitions(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    lake.produce(Message(b"a"), Message(b"b", partition=1))
    lake.run()
    lake.produce(Message(b"c"))
    lake.run()
    unreadable(lake, newest=3)
    lake.produce(Message(b"d"), Message(b"e", partition=2))
    lake.run()
    assert lake.places() == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]
    assert [(e["partitions"], e["unproven"]) for e in lake.named("state_rebuilt_from_txns")] == [(2, [])]


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_lost_checkpoint_is_not_rebuilt_for_a_topic_that_was_made_again(
    new_lake: NewLake, *, with_rows: bool
) -> None:
    """Without rows, since every message was refused, the receipts say which topic it was."""
    lake, other = new_lake(), new_lake()
    source = "format: ndjson\n                    schema: id BIGINT"
    lake.produce(*[b'{"id": 1}' if with_rows else b"broken"] * 2)
    other.produce(b'{"id": 5}')
    both = f"topics: [{lake.topic}, {other.topic}]"
    lake.run(source=source, kafka=both)
    for number in range(33):  # more commits than are looked at first
        other.produce(b'{"id": %d}' % number)
        lake.run(source=source, kafka=both)
    unreadable(lake)
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(*[b'{"id": 2}'] * 3)
    rows = len(lake.rows())
    with pytest.raises(RecoveryError, match="was deleted and made again"):
        lake.run(source=source, kafka=both)
    assert len(lake.rows()) == rows


@pytest.mark.parametrize("kept", ["rows", "receipts", "copy"])
def test_a_lost_checkpoint_is_rebuilt_without_a_topic_that_is_gone(new_lake: NewLake, kept: str) -> None:
    """Its rows stay, its Txns are its position, and what knows its id recognises a topic of its name as another one."""
    lake, other = new_lake(), new_lake()
    source = "format: ndjson\n                    schema: id BIGINT"
    copy = lake.table / "_blizzard" / "p_clicks_checkpoint.json"
    both = f"topics: [{lake.topic}, {other.topic}]"
    lake.produce(*[b"broken" if kept == "receipts" else b'{"id": 1}'] * 2)
    lake.run(source=source, kafka=both)
    before = copy.read_text()
    other.produce(b'{"id": 5}')
    lake.run(source=source, kafka=both)
    unreadable(lake)
    if kept == "copy":
        shutil.rmtree(lake.table / "_blizzard")
        copy.parent.mkdir()
        copy.write_text(before)
        DeltaTable(lake.table).delete(f"_source['file'] = '{lake.topic}/0'")
    delete_topic(lake.settings, lake.topic)
    other.produce(b'{"id": 6}')
    rest = f"topics: [{other.topic}]"
    lake.run(source=source, kafka=rest)
    found = {"rows": [1, 1, 5, 6], "receipts": [5, 6], "copy": [5, 6]}[kept]
    assert sorted(row["id"] for row in lake.rows()) == found
    assert [event["unproven"] for event in lake.named("state_rebuilt_from_txns")] == [[]]
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 1
    create_topic(lake.settings, lake.topic)
    lake.run(source=source, kafka=rest)
    with pytest.raises(RecoveryError, match="was deleted and made again"):
        lake.run(source=source, kafka=both)


@pytest.mark.parametrize("with_other", [True, False])
def test_a_lost_checkpoint_is_not_rebuilt_if_nothing_tells_what_is_gone(new_lake: NewLake, *, with_other: bool) -> None:
    """Neither of which topic the offsets are, nor, without any topic that is still there, of which cluster."""
    lake, other = new_lake(), new_lake()
    source = "format: ndjson\n                    schema: id BIGINT"
    lake.produce(b"broken" if with_other else b'{"id": 1}')
    other.produce(*[b'{"id": 5}'] * with_other)
    lake.run(source=source, kafka=f"topics: [{lake.topic}, {other.topic}]")
    unreadable(lake)
    shutil.rmtree(lake.table / "_blizzard")
    why = "say which topic .* it was" if with_other else "nothing else says of which cluster"
    with pytest.raises(RecoveryError, match=rf"offsets of topic {lake.topic}, which the brokers do not have.* {why}"):
        lake.run(source=source, kafka=f"topics: [{other.topic}]")


def test_a_name_that_is_added_is_read_from_its_first_message_and_its_txns_say_where_it_began(new_lake: NewLake) -> None:
    """Also with `start: latest`. A partition without messages has a Txn, too, if it did not begin with offset 0."""
    lake, other = new_lake(), new_lake(partitions=3)
    lake.run(kafka="start: latest")
    other.produce(*[Message(b"old", partition=number) for number in (0, 1, 1)])
    forget_before(other, 2, partition=1)
    both = f"topics: [{lake.topic}, {other.topic}], start: latest"
    lake.run(kafka=both)
    assert [row["_source"]["file"] for row in lake.rows()] == [f"{other.topic}/0"]
    app_id = f"blizzard:p:clicks:{other.topic}"
    assert [lake.txns().get(f"{app_id}:{number}") for number in range(3)] == [0, 1, None]
    unreadable(lake)
    other.produce(Message(b"new", partition=1), Message(b"new", partition=2))
    lake.run(kafka=both)
    assert lake.places() == [(0, 0), (1, 2), (2, 0)]


def test_without_a_txn_a_partition_begins_at_0_after_a_lost_state_and_what_is_gone_is_said(new_lake: NewLake) -> None:
    lake, other = new_lake(), new_lake()
    lake.produce(b"a")
    lake.run()
    unreadable(lake)
    other.produce(b"gone", b"gone", b"b")
    forget_before(other, 2)
    both = f"topics: [{lake.topic}, {other.topic}]"
    with pytest.raises(RecoveryError, match=r"offsets 0 to 1 of .* are gone.*`kafka.on_lost_offsets: continue`"):
        lake.run(kafka=both)
    lake.run(kafka=f"{both}, on_lost_offsets: continue")
    lake.run(kafka=both)
    assert sorted(row["message_payload"] for row in lake.rows()) == [b"a", b"b"]
    assert [(letter["lost_from"], letter["lost_to"]) for letter in lake.letters()] == [(0, 1)]


def test_where_partitions_began_is_kept_from_a_copy_of_another_commit(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"old", b"old")
    lake.run(kafka="start: latest")
    copy = lake.table / "_blizzard" / "p_clicks_checkpoint.json"
    before = copy.read_text()
    lake.produce(b"new")
    lake.run(kafka="start: latest")
    unreadable(lake)
    copy.write_text(before)
    lake.produce(b"newer")
    lake.run(kafka="start: latest")
    assert lake.places() == [(0, 2), (0, 3)]
    assert json.loads(copy.read_text())["topics"][lake.topic]["first_offsets"] == {"0": 2}


def test_without_receipts_the_rows_say_which_topic_it_was(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    unreadable(lake)
    shutil.rmtree(lake.table / "_blizzard")
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"b", b"c")
    with pytest.raises(RecoveryError, match="was deleted and made again"):
        lake.run()
    assert len(lake.rows()) == 1


def test_where_a_source_began_is_not_forgotten_with_its_checkpoint(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    lake.produce(Message(b"old"), Message(b"old", partition=1))
    lake.run(kafka="start: latest")
    unreadable(lake)
    lake.produce(Message(b"new"))
    lake.run(kafka="start: latest")
    assert lake.places() == [(0, 1)]
    assert [event["unproven"] for event in lake.named("state_rebuilt_from_txns")] == [[lake.topic]]


def test_a_topic_that_there_is_not_is_said(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.topic = "nobody-made-it"
    with pytest.raises(PermanentError, match="there is no topic nobody-made-it"):
        lake.run()
    assert not lake.table.exists()


def test_of_two_jobs_one_commits_and_the_other_begins_again(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    lake.produce(b"b", b"c")

    def other(event: str) -> None:
        if event == "batch_read":
            lake.on_event = lambda event: None
            lake.run()
            lake.produce(b"d")

    lake.on_event = other
    lake.run()
    assert lake.places() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert len(lake.named("race_lost")) == 1


def test_a_source_of_files_does_not_become_one_of_topics(new_lake: NewLake, tmp_path: Path) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    log = sorted((lake.table / "_delta_log").glob("*.json"))[-1]
    log.write_text(log.read_text().replace('\\"kind\\":\\"topics\\",', ""))
    with pytest.raises(PermanentError, match="as one of files"):
        lake.run()


def test_batches_end_at_the_number_of_messages_and_all_partitions_have_a_share(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    lake.produce(*[Message(b"x", partition=0)] * 50, *[Message(b"y", partition=1)] * 5)
    lake.run(source="format: envelope\n                    checkpoint: {interval_records: 20}")
    assert [event["offsets"] for event in lake.named("ranges_planned")] == [20, 20, 15]
    assert lake.places() == [*((0, n) for n in range(50)), *((1, n) for n in range(5))]


def test_committed_offsets_are_published_to_a_group(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"a", b"b")
    group = f"of-{lake.topic}"
    lake.run(kafka=f"publish_group: {group}")
    assert lake.named("publish_failed") == []
    admin = AdminClient(lake.settings)
    places = [TopicPartition(lake.topic, number) for number in (0, 1)]
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
    found = asked[group].result(WAIT_SECS).topic_partitions
    assert {(one.partition, one.offset) for one in found} == {(0, 2), (1, 0)}


def test_without_any_topic_there_is_nothing_to_publish(new_lake: NewLake) -> None:
    lake, kafka = new_lake(), f'topic_pattern: "{new_lake().topic}-later", publish_group: monitor'
    lake.run(kafka=kafka)
    lake.run(kafka=kafka)
    assert not lake.named("publish_failed")
    assert lake.places() == []
