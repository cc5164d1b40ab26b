"""Brokers that are not those whose messages the table has, or whose topics have lost partitions: nothing is read."""

import json
import re
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.errors import RecoveryError
from tests.kafka.test_topic_audit import audit, counts, kinds
from tests.kafka.topic_lake import NewLake, TopicLake

FORGED = {
    "another_cluster": (r"\"cluster_id\":\"", r"\"cluster_id\":\"other-"),
    "fewer partitions": (r"\"next_offsets\":{\"0\":", r"\"next_offsets\":{\"7\":4,\"0\":"),
}
"""What the newest checkpoint says instead of what it does: no broker takes partitions away, or changes its cluster."""
SAID = {
    "another_cluster": r"the brokers are of cluster (\S+); expected other-\1, whose messages the table has",
    "fewer partitions": "has 1 partitions, and no partition 7 any more, of which the table has messages",
}
Capsys = pytest.CaptureFixture[str]


@pytest.fixture(params=FORGED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(new_lake: NewLake, kind: str) -> TopicLake:
    """With a message in the table, and one that waits."""
    made = new_lake()
    made.produce(b"a")
    made.run()
    for file in (made.table / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace(*FORGED[kind]))
    made.produce(b"b")
    return made


def versions(lake: TopicLake) -> int:
    return len([*(lake.table / "_delta_log").glob("*.json")])


def told(lake: TopicLake, capsys: Capsys, command: str) -> dict[str, Any]:
    assert main([command, "--json", str(lake.config_file())]) == 1
    [found] = json.loads(capsys.readouterr().out)
    return dict(found)


def test_a_run_reads_nothing(lake: TopicLake, kind: str) -> None:
    before = versions(lake)
    with pytest.raises(RecoveryError, match=f"{SAID[kind]}.* Nothing was read.* a source of its own, under a new name"):
        lake.run()
    assert (lake.places(), versions(lake)) == ([(0, 0)], before)


def test_the_status_and_the_plan_have_it_as_a_problem(lake: TopicLake, kind: str, capsys: Capsys) -> None:
    found = told(lake, capsys, "status")
    assert (found["partitions"], found["lag"], found["lag_secs"]) == ([], None, None)
    [planned] = told(lake, capsys, "plan")["sources"]
    assert planned["partitions"] == []
    for problem in (found["problem"], planned["problem"]):
        assert re.search(SAID[kind], problem)


def test_an_audit_says_that_nothing_of_it_was_compared(lake: TopicLake, kind: str, capsys: Capsys) -> None:
    found = audit(lake, capsys)
    assert found["verdict"] == "notes"
    if kind == "another_cluster":
        assert (kinds(found), counts(found), found["partitions"]) == (["another_cluster"], {}, [])
        assert "the brokers are of cluster" in found["notices"][0]["text"]
    else:
        assert kinds(found) == ["topic_gone"]
        assert f"topic {lake.topic} has no partition 7 any more" in found["notices"][0]["text"]
        assert counts(found) == {"objects": 2, "committed": 1, "pending": 1}


def test_a_replace_takes_nothing_out(lake: TopicLake, kind: str, capsys: Capsys) -> None:
    before = versions(lake)
    partition = 0 if kind == "another_cluster" else 7
    assert main(["replace", "--path", f"{lake.topic}/{partition}", str(lake.config_file())]) == 2
    assert versions(lake) == before
