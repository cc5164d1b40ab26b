"""The columns by which a table is clustered, from its log without an engine."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import LogDamaged
from blizzard.state.clustering import clustered_by
from blizzard.state.delta_log import LOG_FOLDER, commit_key
from blizzard.storage.memory import MemoryStore
from tests.unit.test_txns import store_of


def domain(configuration: object, *, removed: bool = False) -> dict[str, Any]:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    return {"domain": "delta.clustering", "configuration": text, "removed": removed}


def commit(*actions: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps({"domainMetadata": action}) for action in actions).encode()


def by(*paths: list[str]) -> dict[str, Any]:
    return domain({"clusteringColumns": paths})


def test_the_newest_clustering_counts() -> None:
    assert clustered_by(store_of(b"", commit(by(["a"])), commit(by(["b"], ["c", "d"])))) == [("b",), ("c", "d")]
    assert clustered_by(store_of(commit(by(["a"])), commit(by()))) == []
    assert clustered_by(store_of(commit(by(["a"])), commit(domain("", removed=True)))) == []
    assert clustered_by(store_of(commit({**by(["a"]), "domain": "delta.rowTracking"}))) == []


def checkpoint(**columns: Any) -> MemoryStore:
    store, body = store_of(b"", b""), io.BytesIO()
    pq.write_table(pa.table(columns), body)
    store.put(f"{LOG_FOLDER}{1:020d}.checkpoint.parquet", body.getvalue())
    return store


def test_a_checkpoint_has_it_too() -> None:
    store = checkpoint(domainMetadata=[None, by(["a"])])
    assert clustered_by(store) == [("a",)]
    store.put(commit_key(2), commit(by(["b"])))
    assert clustered_by(store) == [("b",)]


def test_a_checkpoint_may_have_no_place_for_it() -> None:
    assert clustered_by(checkpoint(txn=[{"appId": "a", "version": 1}])) == []


@pytest.mark.parametrize("text", ["torn", "{}", '{"clusteringColumns": "a"}', '{"clusteringColumns": [[1]]}'])
def test_a_clustering_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(LogDamaged, match="the clustering of the table cannot be read"):
        clustered_by(store_of(commit(domain(text))))
