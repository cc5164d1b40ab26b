"""The field `member` of `_source`, which a table gets with its first zip file, from each engine."""

from pathlib import Path

import pytest

from tests.spark.other_programs import ByDeltalake
from tests.spark.table_world import ALONE, WITH_SPARK, World, Written, world_of


@pytest.fixture(params=[ALONE, *WITH_SPARK])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return world_of(request, tmp_path)


def origins(world: World) -> list[tuple[str, str, str | None]]:
    """Of each row: its id, its file, and its member of the file."""
    found = [
        (name, source["file"], source["member"]) for name, source in ByDeltalake(world.table).read("id", "_source")
    ]
    if not world.alone:
        assert world.sql("SELECT id, _source.file, _source.member FROM {t} ORDER BY id") == found
    return found


def test_the_first_zip_file_adds_the_name_of_its_member_to_the_provenance(world: World) -> None:
    world.append(0, "a")
    assert not world.source().layout().members
    table = world.source()
    layout = table.layout(members=True)
    assert layout.members
    table.append(Written([world.write(layout, "b", member="m.csv")], layout), sequence=1, user_metadata="")
    world.append(2, "c")
    assert world.source().layout().members
    assert origins(world) == [
        ("a", "f1", None),
        ("b", "f2", "m.csv"),
        ("c", "f3", None),
    ]


def test_a_table_made_by_a_zip_file_names_its_members(world: World) -> None:
    layout = world.source().layout(members=True)
    table = world.source()
    table.layout(members=True)
    table.append(Written([world.write(layout, "a", member="m.csv")], layout), sequence=0, user_metadata="")
    assert origins(world) == [("a", "f1", "m.csv")]
    assert world.versions() == [0]
