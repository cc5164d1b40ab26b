"""Tables whose location has odd characters: the local engine commits to the folder that is named, or leaves it to
Spark."""

import string
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from blizzard.table.locations import MISREAD
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark

ODD = sorted({*string.punctuation, " ", "é", "日"} - {*"/?*"} - MISREAD)
DECODED = {"x%20y": "x y", "a%2Fb": "a/b", "ha#sh": "ha", "back\\s": "back/s"}
"""What deltalake may take such a name for."""


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], EngineLake]]:
    """There is Spark for the tests that need it."""
    needed = request.node.get_closest_marker("spark") is not None
    spark = request.getfixturevalue("spark") if needed else no_spark
    made: list[EngineLake] = []

    def in_folder(name: str) -> EngineLake:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        made.append(EngineLake(folder, spark))
        return made[-1]

    yield in_folder
    for each in made:
        with closing(each):
            pass


def ingest(lake: EngineLake) -> None:
    for name in ("a", "b", "c"):
        lake.put(f"{name}.ndjson", {"id": name, "n": 1})
        lake.run()


@pytest.mark.parametrize("some", [ODD[start : start + 8] for start in range(0, len(ODD), 8)], ids="".join)
def test_the_local_engine_commits_to_the_folder_that_is_named(
    lake: Callable[[str], EngineLake], some: list[str]
) -> None:
    made = lake("x".join(["x", *some, "y"]))
    ingest(made)
    assert sorted(file.name for file in (made.table / "_delta_log").glob("*.json")) == [
        f"{version:020d}.json" for version in range(3)
    ]
    assert [row["id"] for row in made.rows()] == ["a", "b", "c"]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "other"), DECODED.items())
def test_a_location_that_deltalake_would_take_for_another_is_left_to_spark(
    lake: Callable[[str], EngineLake], name: str, other: str
) -> None:
    neighbour = lake(other)
    ingest(neighbour)
    before = sorted(file.name for file in neighbour.table.rglob("*"))
    made = lake(name)
    made.put("a.ndjson", {"id": "a", "n": 1})
    with pytest.raises(NeedsSpark, match=r"a table whose location has . in it"):
        made.run()
    made.chosen = "auto"
    made.run()
    assert len(made.logged("spark_needed")) == 1
    assert (made.table / "_delta_log" / f"{0:020d}.json").exists()
    assert sorted(file.name for file in neighbour.table.rglob("*")) == before
