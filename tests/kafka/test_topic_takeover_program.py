"""A table that kafka-delta-ingest itself has filled, where its program is on the PATH."""

import deltalake
import pytest

from benchmarks.kafka.delta_ingest import APP_ID, PROGRAM, ingest, is_installed
from tests.kafka.topic_lake import NewLake
from tests.kafka.topics import Message

pytestmark = pytest.mark.skipif(not is_installed(), reason=f"there is no program {PROGRAM} on the PATH")


def test_the_source_goes_on_behind_what_the_program_has_written(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    lake.produce(*[Message(b'{"id": %d}' % n, partition=n % 2) for n in range(1_000)])
    ingest(lake.servers, lake.topic, str(lake.table), columns="id BIGINT", messages=1_000)
    lake.produce(*[Message(b'{"id": %d}' % n, partition=n % 3) for n in range(1_000, 1_100)])
    lake.run(source="format: ndjson\n                    schema: id BIGINT", kafka=f"take_over: {APP_ID}")
    rows = deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [*range(1_100)]
    assert sum(row["_source"] is None for row in rows) == 1_000
