"""The benchmark `kafka`, with few messages and a real broker."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.goals import goals_of
from benchmarks.kafka import delta_ingest
from benchmarks.kafka.delta_ingest import DeltaIngestFailed, ingest, is_installed
from benchmarks.kafka.topic import SCHEMA
from benchmarks.run_options import RunOptions
from benchmarks.suite import kafka as suite
from infra.local.kafka.cluster import KafkaCluster
from tests.fixtures_kafka import NewTopic
from tests.kafka.topics import Message, produce


@pytest.mark.spark
def test_each_contender_reads_the_topic_and_each_goal_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "FORMS", ("json",))
    monkeypatch.setattr(suite, "WARM_UP", 5)
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path / "runs")
    result = suite.run(RunOptions(0.0001, 1, 2, lambda text: None, tmp_path / "data"))
    assert [goal.goal for goal in result.goal_results] == goals_of("kafka")
    assert all(goal.measured is not None for goal in result.goal_results)
    rows, latencies = result.tables
    assert [row[0] for row in rows.rows] == [f"json, {who}" for who in suite.contenders("json")]
    assert all(len(row) == len(table.columns) for table in (rows, latencies) for row in table.rows)
    assert len(result.raw["commits"]) == 2 * suite.WARM_UP


def test_only_a_program_that_is_there_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert suite.DELTA_INGEST not in suite.contenders("json")
    program = tmp_path / delta_ingest.PROGRAM
    program.touch(0o755)
    assert suite.contenders("json") == [*suite.CONTENDERS]
    assert suite.DELTA_INGEST not in suite.contenders("envelope")


def test_a_program_that_ends_by_itself_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / delta_ingest.PROGRAM
    program.write_text("#!/bin/sh\necho no broker\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(DeltaIngestFailed, match=r"exit code 3 after 0 rows: no broker"):
        ingest("localhost:1", "topic", str(tmp_path / "table"), columns=SCHEMA, messages=1)


@pytest.mark.skipif(not is_installed(), reason=f"there is no program {delta_ingest.PROGRAM} on the PATH")
def test_kafka_delta_ingest_is_measured_until_the_table_has_all(
    tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic
) -> None:
    topic, table = new_topic(2), str(tmp_path / "table")
    messages = [Message(b'{"id": "a", "n": 1}', partition=at % 2) for at in range(1_000)]
    produce(kafka.client_settings(), topic, messages)
    ingest(kafka.bootstrap_servers, topic, table, columns=SCHEMA, messages=1_000)
    assert DeltaTable(table).to_pyarrow_dataset().count_rows() == 1_000
