"""A source whose `uri` has moved, with `on_overwrite: replace`: copies take the place of what they are copies of."""

import pytest

from tests.spark.engine_lake import EngineLake
from tests.unit.test_configuration_changes import begin, move_by_copies

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("n", [1, 9], ids=["the same content", "other content"])
def test_copies_with_other_etags_replace_the_rows_once(auto_lake: EngineLake, n: int) -> None:
    begin(auto_lake)
    etags = {row["id"]: row["_source"]["etag"] for row in auto_lake.rows()}
    auto_lake.settings["on_overwrite"] = "replace"
    move_by_copies(auto_lake, n)
    assert auto_lake.run(late=True).overwritten == 2
    rows = auto_lake.rows()
    assert [(row["id"], row["n"]) for row in rows] == [("a", n), ("b", 2), ("c", 3)]
    assert rows[0]["_source"]["etag"] != etags["a"]
    assert auto_lake.letters() == []
    versions = auto_lake.versions()
    auto_lake.run(late=True)
    assert (auto_lake.versions(), auto_lake.ids()) == (versions, ["a", "b", "c"])
