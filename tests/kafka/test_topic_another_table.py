"""Another table for a source of topics, by the commands on the page, word by word."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from tests.kafka.test_topic_audit import Capsys, counts
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.unit.documents import section

DAYS = "format: ndjson\n                    schema: id BIGINT, day STRING"
ALL_ROWS, ON_BROKERS = 0, 1
"""The two ways, in the order of the page."""


def commands(way: int) -> list[list[str]]:
    text = section("docs/kafka.md", "## Another table").split("**With what the brokers still have.**")[way]
    return [shlex.split(line) for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE)]


@pytest.fixture
def lake(new_lake: NewLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TopicLake:
    """With rows and letters, of which retention has taken the first ones. The working directory has the configuration,
    and the table at `lake/clicks`."""
    made = new_lake(partitions=2)
    made.table = tmp_path / "lake" / "clicks"
    monkeypatch.chdir(tmp_path)
    made.produce(*[b'{"id": %d, "day": "d%d"}' % (n, n % 2) for n in range(3)], b"broken")
    made.run(source=DAYS)
    forget_before(made, 2)
    made.produce(b'{"id": 4, "day": "d0"}', b"broken, too")
    made.run(source=DAYS)
    made.produce(b'{"id": 6, "day": "d0"}')
    configure(made, made.table)
    return made


def configure(lake: TopicLake, table: Path, kafka: str = "", pipeline: str = "") -> None:
    lake.table = table
    Path("pipelines.yaml").write_text(lake.configuration(DAYS, kafka, pipeline))


def run(command: list[str]) -> None:
    if command[0] == "blizzard":
        assert main(command[1:]) == 0, command
    else:
        program = sys.executable if command[0] == "python" else command[0]
        subprocess.run([program, *command[1:]], check=True)


def audited(capsys: Capsys) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["audit", "--json", "pipelines.yaml"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    return dict(found)


def ids(lake: TopicLake) -> list[int]:
    return [row["id"] for row in lake.rows()]


def test_with_all_of_its_rows(lake: TopicLake, tmp_path: Path, capsys: Capsys) -> None:
    old, before = lake.table, audited(capsys)
    assert counts(before) == {"objects": 5, "committed": 2, "dead_lettered": 2, "pending": 1}
    copies = [command for command in commands(ALL_ROWS) if command[0] != "blizzard"]
    for command in copies:
        run(command)
    configure(lake, tmp_path / "lake" / "by-day", pipeline="partition_by: [day]")
    for command in commands(ALL_ROWS)[len(copies) :]:
        run(command)
    assert ids(lake) == [0, 1, 2, 4, 6]
    assert DeltaTable(lake.table).metadata().partition_columns == ["day"]
    after = audited(capsys)
    assert counts(after) == {"objects": 5, "committed": 3, "dead_lettered": 2}
    assert [one["older_rows"] for one in after["partitions"]] == [2, 0]
    lake.produce(b'{"id": 7, "day": "d9"}')
    lake.run(source=DAYS, pipeline="partition_by: [day]")
    assert ids(lake) == [0, 1, 2, 4, 6, 7]
    lake.table = old
    assert ids(lake) == [0, 1, 2, 4]


def test_with_what_the_brokers_still_have(lake: TopicLake, tmp_path: Path, capsys: Capsys) -> None:
    gone = [one["older_rows"] + one["only_in_table"] for one in audited(capsys)["partitions"]]
    assert gone == [2, 0]
    configure(lake, tmp_path / "lake" / "another", kafka="start: earliest")
    for command in commands(ON_BROKERS):
        run(command)
    assert ids(lake) == [2, 4, 6]
    assert counts(audited(capsys)) == {"objects": 5, "committed": 3, "dead_lettered": 2}
