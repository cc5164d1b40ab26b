"""`blizzard replay` of a source that reads topics: refused messages become rows, each once, whatever happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from blizzard.config.load import parse_config
from blizzard.state.stored_letters import LetterFilter
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.repair.repair_topics import topic_repair_of
from spark_job.repair.wishes import from_letters
from spark_job.repair.work import Item, Kind, Work
from spark_job.topic_wiring import topic_parts
from tests.kafka.test_topic_audit import audit, counts
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message, create_topic, delete_topic

STRICT = "format: ndjson\n                    schema: id BIGINT NOT NULL"
LENIENT = "format: ndjson\n                    schema: id BIGINT"
NARROW = LENIENT + "\n                    limits: {max_record_bytes: 20}"
GOING_ON = "on_lost_offsets: continue"
Capsys = pytest.CaptureFixture[str]


def replay(
    lake: TopicLake, capsys: Capsys, *options: str, source: str = LENIENT, kafka: str = "", code: int = 0
) -> dict[str, Any]:
    file = str(lake.config_file(source, kafka, "engine: local"))
    capsys.readouterr()
    assert main(["replay", file, "--json", *options]) == code
    [found] = json.loads(capsys.readouterr().out)
    assert (found["source"], found["source_kind"]) == ("p:clicks", "topics")
    return dict(found)


def fates(found: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(one["path"].rpartition("/")[2], one["fate"], one["records"], one["rows"]) for one in found["files"]]


def ids(lake: TopicLake) -> list[tuple[int, int, Any]]:
    return [(int(r["_source"]["file"].rpartition("/")[2]), r["_source"]["row"], r["id"]) for r in lake.rows()]


def open_letters(lake: TopicLake, capsys: Capsys) -> int:
    assert main(["letters", str(lake.config_file(LENIENT)), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    return int(found["records"])


def with_refused(lake: TopicLake) -> None:
    """Offsets 1 and 3 of partition 0 and 0 of partition 1 are refused, for want of an id or for their length."""
    long = b'{"id": 7, "other": "%s"}' % (b"x" * 30)
    lake.produce(
        Message(b'{"id": 1}'),
        Message(long, b"key"),
        Message(b'{"id": 2}'),
        Message(b"broken"),
        Message(long, partition=1),
    )
    lake.run(source=NARROW)
    assert [letter["row"] for letter in lake.letters()] == [1, 3, 0]


def test_refused_messages_become_rows_as_the_source_is_configured_today(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    before, version = lake.txns(), DeltaTable(lake.table).version()
    found = replay(lake, capsys, code=1)
    assert fates(found) == [("0", "refused", 2, 1), ("1", "done", 1, 1)]
    assert [one["row"] for one in found["files"][0]["refused"]] == [3]
    assert {one["table_version"] for one in found["files"]} == {version + 1}
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2), (1, 0, 7)]
    assert lake.rows()[1]["_source"]["etag"] == lake.rows()[0]["_source"]["etag"]
    assert DeltaTable(lake.table).version() == version + 1
    assert lake.txns() == {**before, "blizzard:p:clicks": before["blizzard:p:clicks"] + 1}
    assert open_letters(lake, capsys) == 1
    assert counts(audit(lake, capsys, LENIENT)) == {"objects": 5, "committed": 4, "dead_lettered": 1}
    again = replay(lake, capsys, code=1)
    assert fates(again) == [("0", "refused", 1, 0)]
    assert DeltaTable(lake.table).version() == version + 1
    lake.produce(b'{"id": 8}')
    lake.run(source=LENIENT)
    assert ids(lake)[3] == (0, 4, 8)


def test_only_the_wanted_letters_are_replayed(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    found = replay(lake, capsys, "--path", f"{lake.topic}/1", "--dry-run")
    assert ([one["records"] for one in found["planned"]], found["files"]) == ([1], [])
    assert len(lake.rows()) == 2
    assert fates(replay(lake, capsys, "--path", f"{lake.topic}/1")) == [("1", "done", 1, 1)]
    assert fates(replay(lake, capsys, "--reason", "max_record_bytes")) == [("0", "done", 1, 1)]
    assert replay(lake, capsys, "--stage", "download")["files"] == []


def test_what_people_see(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    assert main(["replay", str(lake.config_file(LENIENT)), "--reason", "max_record_bytes"]) == 0
    shown = capsys.readouterr().out
    assert "p:clicks: reading 2 messages of 2 partitions once more" in shown
    assert "p:clicks: committed batch 2: 2 rows of 2 partitions" in shown
    assert " 2 partitions are in the table now: 2 rows" in shown
    assert f"   {lake.topic}/1, 1 of its records, in version 2" in shown
    assert main(["files", str(lake.config_file(LENIENT)), f"{lake.topic}/1"]) == 0
    assert " brought        messages that had been refused, by a replay" in capsys.readouterr().out


def test_messages_that_are_gone_are_named_and_can_be_given(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    forget_before(lake, 2)
    found = replay(lake, capsys, "--reason", "max_record_bytes", code=1)
    assert fates(found) == [("0", "held", 1, 0), ("1", "done", 1, 1)]
    assert "offsets 1: the brokers no longer have them" in found["files"][0]["reason"]
    repaired = tmp_path / "repaired.ndjson"
    path = f"{lake.topic}/0"
    lines = [{"path": path, "row": 1, "record": {"id": 70}}, {"path": path, "row": 3, "record": {"id": 80}}]
    repaired.write_text("\n".join(map(json.dumps, lines)))
    assert fates(replay(lake, capsys, "--records", str(repaired))) == [("0", "done", 2, 2)]
    assert ids(lake) == [(0, 0, 1), (0, 1, 70), (0, 2, 2), (0, 3, 80), (1, 0, 7)]
    assert lake.rows()[1]["_source"]["modified"].year >= 2026
    there = lake.rows()[3]["_source"]["modified"]
    assert abs((there - lake.rows()[0]["_source"]["modified"]).total_seconds()) < 1
    assert open_letters(lake, capsys) == 0
    assert fates(replay(lake, capsys, "--records", str(repaired))) == [("0", "in_already", 2, 0)]
    assert len(lake.rows()) == 5


def test_a_compacted_message_is_held_and_the_others_go_on(new_lake: NewLake, capsys: Capsys) -> None:
    from tests.kafka.topics import consume, until

    lake = new_lake(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", delete_retention_ms="100"
    )
    long = b'{"id": %d, "other": "' + b"x" * 30 + b'"}'
    lake.produce(Message(long % 1, b"a"), Message(long % 2, b"b"), Message(b'{"id": 3}', b"c"))
    lake.run(source=NARROW)
    lake.produce(Message(b'{"id": 4}', b"a"))

    def compacted() -> bool:
        lake.produce(Message(b'{"id": 5}', b"d"))  # so that the segment is closed
        return 0 not in [message.offset() for message in consume(lake.settings, lake.topic)]

    until(compacted, "compaction")
    found = replay(lake, capsys, code=1)
    assert [(one["fate"], one["records"]) for one in found["files"]] == [("held", 1), ("done", 1)]
    assert "offsets 0: the brokers have no such messages any more" in found["files"][0]["reason"]
    assert ids(lake) == [(0, 1, 2), (0, 2, 3)]


def test_letters_of_offsets_that_no_commit_has_are_left_to_the_next_run(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 1}')
    lake.run(source=LENIENT)
    lake.produce(b"broken", b'{"id": 2}')

    def dies(event: str) -> None:
        if event == "batch_read":
            raise KeyboardInterrupt

    lake.on_event = dies
    with pytest.raises(KeyboardInterrupt):
        lake.run(source=LENIENT)
    lake.on_event = lambda event: None
    assert [letter["row"] for letter in lake.letters()] == [1]
    found = replay(lake, capsys, code=1)
    assert fates(found) == [("0", "held", 1, 0)]
    assert "no commit has them yet" in found["files"][0]["reason"]
    lake.run(source=LENIENT)
    assert ids(lake) == [(0, 0, 1), (0, 2, 2)]


def test_letters_of_what_is_in_the_table_already_are_settled_without_a_commit(
    new_lake: NewLake, capsys: Capsys
) -> None:
    """An attempt that refused a message did not commit, and the next one, configured anew, took it."""
    lake = new_lake()
    lake.produce(b'{"id": 1}')
    lake.run(source=LENIENT)
    lake.produce(b"{}")

    def dies(event: str) -> None:
        if event == "batch_read":
            raise KeyboardInterrupt

    lake.on_event = dies
    with pytest.raises(KeyboardInterrupt):
        lake.run(source=STRICT)
    lake.on_event = lambda event: None
    lake.run(source=LENIENT)
    assert [letter["row"] for letter in lake.letters()] == [1]
    assert counts(audit(lake, capsys, LENIENT)) == {"objects": 2, "committed": 2}  # a letter without a commit
    commits = DeltaTable(lake.table).version()
    assert fates(replay(lake, capsys)) == [("0", "in_already", 1, 0)]
    assert DeltaTable(lake.table).version() == commits
    assert counts(audit(lake, capsys, LENIENT)) == {"objects": 2, "committed": 2}


def test_messages_of_a_topic_that_was_made_again_are_not_read(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"broken", b'{"id": 1}')
    lake.run(source=LENIENT)
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b'{"id": 99}', b'{"id": 98}')
    found = replay(lake, capsys, code=1)
    assert fates(found) == [("0", "held", 1, 0)]
    assert "no longer have the topic" in found["files"][0]["reason"]
    assert ids(lake) == [(0, 1, 1)]


def test_gaps_are_no_messages(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    lake.run(source=LENIENT, kafka=GOING_ON)
    lake.produce(*[b"broken"] * 4)
    forget_before(lake, 3)
    lake.run(source=LENIENT, kafka=GOING_ON)
    found = replay(lake, capsys, "--stage", "download", code=1)
    assert fates(found) == [("0", "held", 1, 0)]
    assert "offsets 1 to 2 were gone before they were read" in found["files"][0]["reason"]
    repaired = tmp_path / "repaired.ndjson"
    repaired.write_text(json.dumps({"path": f"{lake.topic}/0", "row": 1, "record": {"id": 1}}))
    file = str(lake.config_file(LENIENT, GOING_ON))
    assert main(["replay", file, "--records", str(repaired)]) == 2
    assert len(lake.rows()) == 1


def test_an_envelope_takes_no_given_records(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake()
    limited = "format: envelope\n                    limits: {max_record_bytes: 3}"
    lake.produce(b"abcd", b"a")
    lake.run(source=limited)
    repaired = tmp_path / "repaired.ndjson"
    repaired.write_text(json.dumps({"path": f"{lake.topic}/0", "row": 0, "record": {"stream_offset": 5}}))
    assert main(["replay", str(lake.config_file(limited)), "--records", str(repaired)]) == 2
    assert "keeps messages as they are" in capsys.readouterr().err
    assert fates(replay(lake, capsys, source="format: envelope")) == [("0", "done", 1, 1)]
    assert [row["message_payload"] for row in lake.rows()] == [b"abcd", b"a"]


def test_a_replay_may_add_columns_to_the_table(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 1}', b'{"id": 2, "other": "%s"}' % (b"x" * 30))
    lake.run(source=NARROW)
    adding = LENIENT + "\n                    new_fields: add"
    assert fates(replay(lake, capsys, source=adding)) == [("0", "done", 1, 1)]
    assert [(row["_source"]["row"], row["other"]) for row in lake.rows()] == [(0, None), (1, "x" * 30)]
    lake.produce(b'{"id": 3}')
    lake.run(source=adding)
    assert [row["_source"]["row"] for row in lake.rows()] == [0, 1, 2]


def test_messages_far_apart_are_read_at_their_offsets(new_lake: NewLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = new_lake(partitions=2)
    long = b'{"id": 7, "other": "%s"}' % (b"x" * 30)
    lake.produce(*[Message(long if n in (3, 150, 151, 399) else b'{"id": 1}', partition=n % 2) for n in range(400)])
    lake.run(source=NARROW)
    monkeypatch.setattr("spark_job.repair.topic_judge.READ_THROUGH", 10)
    one = Replay(lake)
    one.run()
    assert [result.fate for result in one.work.results] == ["done", "done"]
    assert lake.places() == [(partition, offset) for partition in (0, 1) for offset in range(200)]
    assert [(p, n) for p, n, value in ids(lake) if value == 7] == [(0, 75), (1, 1), (1, 75), (1, 199)]


def test_a_source_without_a_commit_has_nothing_to_replay(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"broken")
    found = replay(lake, capsys)
    assert (found["files"], found["left"]) == ([], [])
    assert not lake.table.exists()


# -- races and kills


class Replay:
    """A replay in this process, whose events can be seen. `given`: texts of repaired records, by offset in partition 0;
    None: all letters are meant."""

    def __init__(
        self,
        lake: TopicLake,
        on_event: Callable[[str], None] = lambda event: None,
        configured: str = LENIENT,
        given: dict[int, str] | None = None,
    ) -> None:
        (found,) = parse_config(lake.configuration(configured), {}, folder="/").sources()
        pipeline, source = found

        def log(event: str, /, **fields: object) -> None:
            self.events.append(event)
            on_event(event)

        self.events: list[str] = []
        self.engine = LocalEngine(S3Settings(), dict, log, cores=2)
        parts = topic_parts(pipeline, source, engine=self.engine, s3=S3Settings(), log=log)
        everything = LetterFilter(lambda path: True, frozenset(), None, 0.0, 1e12)
        wish = from_letters(parts.state, parts.identity.state_prefix, parts.identity.source_id, everything)
        if given is not None:
            [one] = wish.items
            wish.items = [Item(Kind.GIVEN, one.path, one.etag, tuple(sorted(given)), given)]
        self.work = Work(wish.items)
        assert source.kafka is not None
        self.repair = topic_repair_of(parts, source.kafka, self.work)

    def run(self) -> None:
        try:
            self.repair.run()
        finally:
            self.engine.close()


@pytest.mark.parametrize("step", ["replay_planned", "batch_read", "messages_committed"])
def test_it_may_be_killed_at_every_step_and_repeated(new_lake: NewLake, capsys: Capsys, step: str) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)

    def dies(event: str) -> None:
        if event == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Replay(lake, dies).run()
    replay(lake, capsys, code=1)
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2), (1, 0, 7)]
    assert open_letters(lake, capsys) == 1


def test_a_job_that_commits_meanwhile_and_the_replay_lose_and_double_nothing(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    lake.produce(b'{"id": 8}')
    done: list[str] = []

    def race(event: str) -> None:
        if event == "batch_read" and not done:
            done.append(event)
            lake.run(source=LENIENT)

    one = Replay(lake, race)
    one.run()
    assert "race_lost" in one.events
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2), (0, 4, 8), (1, 0, 7)]
    assert counts(audit(lake, capsys, LENIENT)) == {"objects": 6, "committed": 5, "dead_lettered": 1}


def test_a_running_job_goes_on_behind_a_replay(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    lake.produce(b'{"id": 8}')
    done: list[str] = []

    def race(event: str) -> None:
        if event == "batch_read" and not done:
            done.append(event)
            Replay(lake).run()

    lake.on_event = race
    lake.run(source=LENIENT)
    assert len(lake.named("race_lost")) == 1
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2), (0, 4, 8), (1, 0, 7)]


def test_of_two_replays_one_brings_the_rows(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    with_refused(lake)
    done: list[str] = []

    def race(event: str) -> None:
        if event == "batch_read" and not done:
            done.append(event)
            Replay(lake).run()

    Replay(lake, race).run()
    assert ids(lake) == [(0, 0, 1), (0, 1, 7), (0, 2, 2), (1, 0, 7)]
