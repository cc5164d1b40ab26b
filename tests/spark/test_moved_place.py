"""A source whose `uri` has moved, with `on_overwrite: replace`: copies take the place of what they are copies of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.engine_lake import EngineLake
from tests.unit.test_configuration_changes import begin, move_by_copies

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, spark, chosen="auto")
    yield made
    made.close()


@pytest.mark.parametrize("n", [1, 9], ids=["the same content", "other content"])
def test_copies_with_other_etags_replace_the_rows_once(lake: EngineLake, n: int) -> None:
    begin(lake)
    etags = {row["id"]: row["_source"]["etag"] for row in lake.rows()}
    lake.settings["on_overwrite"] = "replace"
    move_by_copies(lake, n)
    assert lake.run(late=True).overwritten == 2
    rows = lake.rows()
    assert [(row["id"], row["n"]) for row in rows] == [("a", n), ("b", 2), ("c", 3)]
    assert rows[0]["_source"]["etag"] != etags["a"]
    assert lake.letters() == []
    versions = lake.versions()
    lake.run(late=True)
    assert (lake.versions(), lake.ids()) == (versions, ["a", "b", "c"])
