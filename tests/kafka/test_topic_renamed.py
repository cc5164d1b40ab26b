"""Sources of topics under another name: they never read in silence what the table has."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.errors import RecoveryError
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import create_topic, delete_topic
from tests.unit.rebuild_lake import become_table_of

NDJSON = "format: ndjson\n                    schema: id BIGINT"
ENVELOPE = "format: envelope"
AGAIN = "take_over: nothing"
Capsys = pytest.CaptureFixture[str]


def versions(lake: TopicLake) -> int:
    return len([*(lake.table / "_delta_log").glob("*.json")])


def is_refused(lake: TopicLake, found: str, source: str = ENVELOPE, kafka: str = "") -> None:
    before = versions(lake)
    with pytest.raises(RecoveryError, match=rf"{found}.* its former name back.*`take_over: nothing`"):
        lake.run(source, kafka)
    assert versions(lake) == before


def rename_source(lake: TopicLake) -> None:
    lake.source = "visits"


def rename_pipeline(lake: TopicLake) -> None:
    lake.pipeline_name = "q"


@pytest.mark.parametrize("block", ["", "start: latest", "pattern"])
@pytest.mark.parametrize("rename", [rename_source, rename_pipeline])
def test_under_a_new_name_nothing_is_read_and_under_the_former_one_it_goes_on(
    new_lake: NewLake, rename: Callable[[TopicLake], None], block: str
) -> None:
    lake = new_lake()
    kafka = f"topic_pattern: {lake.topic}" if block == "pattern" else block
    former = lake.pipeline_name, lake.source
    lake.run(kafka=kafka)
    lake.produce(b"a", b"b")
    lake.run(kafka=kafka)
    rename(lake)
    lake.produce(b"c")
    is_refused(lake, rf"topic {lake.topic} \(id \S+\) by source p:clicks", kafka=kafka)
    lake.pipeline_name, lake.source = former
    lake.run(kafka=kafka)
    assert lake.places() == [(0, 0), (0, 1), (0, 2)]


def test_messages_come_once_more_if_the_source_says_so(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    rename_source(lake)
    is_refused(lake, "by source p:clicks")
    lake.run(kafka=AGAIN)
    assert lake.places() == [(0, 0), (0, 0)]
    lake.produce(b"b")
    lake.run()
    assert lake.places() == [(0, 0), (0, 0), (0, 1)]


def test_txns_are_enough_without_a_row(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"broken")
    lake.run(NDJSON)
    rename_source(lake)
    is_refused(lake, r"\(id \S{22}\) by source p:clicks", NDJSON)
    for file in (lake.table / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('\\"cluster_id\\"', '\\"torn\\"'))
    (lake.table / "_blizzard" / "p_clicks_checkpoint.json").unlink()
    is_refused(lake, r"\(id unknown\) by source p:clicks", NDJSON)


def test_rows_are_enough_without_a_txn(new_lake: NewLake) -> None:
    from deltalake import DeltaTable

    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    become_table_of(lake.table, DeltaTable(lake.table).to_pyarrow_table())
    rename_source(lake)
    is_refused(lake, r"\(id \S{22}\) by source p:clicks")


def test_a_topic_that_was_made_again_is_another_one(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"b")
    rename_source(lake)
    lake.run()
    assert sorted(row["message_payload"] for row in lake.rows()) == [b"a", b"b"]


def test_another_topic_and_a_source_that_is_configured_are_no_former_name(new_lake: NewLake) -> None:
    lake, other = new_lake(), new_lake()
    lake.produce(b"a")
    lake.run()
    other.produce(b"b")
    former, lake.topic, lake.source = lake.topic, other.topic, "others"
    lake.run()
    lake.topic, lake.source = former, "twice"
    servers = f'bootstrap_servers: "{lake.servers}"'
    beside = f"\n                  clicks: {{kafka: {{{servers}, topics: [{former}]}}, format: envelope}}"
    first, _ = lake.jobs(ENVELOPE + beside)
    first.ingest.drain()
    assert len(lake.rows()) == 3


def test_commands_say_it_before_the_run(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    rename_source(lake)
    for command in ("plan", "validate --against-table"):
        assert main([*command.split(), str(lake.config_file())]) == 1
        assert f"topic {lake.topic} (id" in " ".join(capsys.readouterr().out.split())
    table = told(lake, capsys, 1)
    assert "by source p:clicks, which the pipeline does not have" in table["refused"][0]
    assert main(["plan", str(lake.config_file(kafka=AGAIN))]) == 0
    capsys.readouterr()
    assert told(lake, capsys, 0, AGAIN)["refused"] == []


def told(lake: TopicLake, capsys: Capsys, code: int, kafka: str = "") -> dict[str, Any]:
    assert main(["validate", "--against-table", "--json", str(lake.config_file(kafka=kafka))]) == code
    [table] = json.loads(capsys.readouterr().out)["tables"]
    return dict(table)


def test_a_comparison_names_sources_and_not_their_partitions(new_lake: NewLake, capsys: Capsys) -> None:
    lake, other = new_lake(partitions=2), new_lake()
    lake.produce(b"a")
    lake.run()
    lake.topic, lake.source = other.topic, "others"
    wrote = [note for note in told(lake, capsys, 0)["notes"] if "wrote to the table" in note]
    assert wrote == ["source p:clicks wrote to the table and is not in the configuration"]


def test_a_comparison_names_an_app_id_to_take_over(new_lake: NewLake, capsys: Capsys) -> None:
    from tests.kafka.test_topic_takeover import filled_by_another

    lake = new_lake()
    filled_by_another(lake, "kdi", {0: 2})
    assert "`take_over: kdi`" in told(lake, capsys, 1)["refused"][0]
    assert told(lake, capsys, 0, "take_over: kdi")["refused"] == []
