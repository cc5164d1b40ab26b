"""docs/kafka.md: its commands, word by word, on a topic of the tests' broker, and what they print is what it shows."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message, create_topic, delete_topic
from tests.unit.documents import fences, section
from tests.unit.test_schema_story import is_shown, printed

PAGE, TOPIC = "docs/kafka.md", "clicks"
NDJSON = "format: ndjson\n                    schema: id BIGINT"
MESSAGE_BYTES = 200
ELSEWHERE = {"## Another table": "tests/kafka/test_topic_another_table.py"}
CHAPTERS: dict[str, Callable[[TopicLake], None]] = {}
"""By heading: what is there before its commands."""


def chapter(heading: str) -> Callable[[Callable[[TopicLake], None]], Callable[[TopicLake], None]]:
    def known(prepare: Callable[[TopicLake], None]) -> Callable[[TopicLake], None]:
        CHAPTERS[heading] = prepare
        return prepare

    return known


def message(number: int, partition: int, *, good: bool = True) -> Message:
    """Of MESSAGE_BYTES."""
    start = json.dumps({"id": number})[:-1] + ', "page": "'
    return Message(
        (start + "x" * (MESSAGE_BYTES - len(start) - 2) + ('"}' if good else "xx")).encode(), None, partition
    )


@chapter("## Dead letters, again")
def two_long_messages(lake: TopicLake) -> None:
    lake.produce(Message(b'{"id": 1}'), message(2, 0), message(3, 1))
    lake.run(source=f"{NDJSON}\n                    limits: {{max_record_bytes: 100}}")
    lake.config_file(NDJSON)


@chapter("## What the next runs would read")
def more_than_twenty_commits(lake: TopicLake) -> None:
    """One message in a thousand is refused."""
    lake.produce(
        *[message(n, p, good=n % 1000 != 500) for p, count in ((0, 12_000), (1, 11_000)) for n in range(count)]
    )
    lake.run(source=f"{NDJSON}\n                    checkpoint: {{interval_records: 1000}}")
    assert len(lake.named("messages_committed")) > 21
    lake.produce(*[message(n, p) for p, count in ((0, 800), (1, 400)) for n in range(count)])
    lake.config_file(NDJSON)


@chapter("## Which commit has a message")
def one_commit(lake: TopicLake) -> None:
    lake.produce(*[message(number, 0, good=number not in (5, 50)) for number in range(800)], message(1, 1))
    lake.run(source=NDJSON)
    lake.produce(*[message(number, 0) for number in range(412)])
    lake.config_file(NDJSON)


@pytest.fixture
def lake(kafka: KafkaCluster, tmp_path: Path) -> Iterator[TopicLake]:
    create_topic(kafka.client_settings(), TOPIC, 2)
    made = TopicLake(tmp_path, kafka, TOPIC)
    yield made
    made.close()
    delete_topic(kafka.client_settings(), TOPIC)


def steps(heading: str) -> Iterator[tuple[str, str]]:
    """Each command, and what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", section(PAGE, heading), re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown.rstrip("\n")


def without_what_depends_on_the_machine(text: str) -> str:
    return re.sub(r"about \d+ seconds", "about … seconds", text)


@pytest.mark.parametrize("heading", CHAPTERS)
def test_the_commands_of_a_chapter_print_what_it_shows(heading: str, lake: TopicLake, tmp_path: Path) -> None:
    CHAPTERS[heading](lake)
    for command, shown in steps(heading):
        found = printed(tmp_path, command)
        expected = without_what_depends_on_the_machine(shown)
        assert is_shown(found, expected), f"$ {command}\n{found}\n--- the page:\n{shown}"


def test_each_command_of_the_page_is_run_by_a_test() -> None:
    shown = [line for one in fences("console") if one.document == PAGE for line in one.body.splitlines()]
    run = [f"$ {command}" for heading in (*CHAPTERS, *ELSEWHERE) for command, _ in steps(heading)]
    assert sorted(line for line in shown if line.startswith("$ ")) == sorted(run)
