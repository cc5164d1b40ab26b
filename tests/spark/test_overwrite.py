"""Files that change after they were ingested, and late files: the table itself decides."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.engine_lake import ON_BOTH, ON_SPARK, EngineLake, lake_of
from tests.spark.lake import Lake, ids

HOSTILE = [
    "day/it's.ndjson",
    'day/a "key" \\ 100% + \u00e9.ndjson',
    "day/\\u0041\\'\\\\.ndjson",
    "day/%27 OR '1'='1.ndjson",
]
on_spark = pytest.mark.parametrize("lake", ON_SPARK, indirect=True)
on_both = pytest.mark.parametrize("lake", ON_BOTH, indirect=True)


@pytest.fixture(params=["local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineLake]:
    with lake_of(request, tmp_path) as made:
        yield made


def overwritten(lake: Lake, on_overwrite: str) -> Lake:
    """Two ingested files, one of which is then put again with other records."""
    lake.settings |= {"on_overwrite": on_overwrite}
    lake.put("a.ndjson.gz", {"id": "old 0"}, {"id": "old 1"})
    lake.put("b.ndjson.gz", {"id": "other"})
    lake.run()
    lake.put("a.ndjson.gz", {"id": "new 0"}, {"id": "new 1"}, {"id": "new 2"})
    return lake


def test_a_change_is_ignored_and_counted(lake: Lake) -> None:
    totals = overwritten(lake, "ignore").run(late=True)
    assert (totals.overwritten, totals.commits) == (1, 0)
    assert lake.ids() == ["old 0", "old 1", "other"]
    assert lake.letters() == []


def test_a_change_is_dead_lettered_once_and_the_first_rows_stay(lake: Lake) -> None:
    overwritten(lake, "dead_letter")
    for _ in range(2):
        lake.run(late=True)
    (letter,) = lake.letters()
    assert letter["path"] == "a.ndjson.gz"
    assert "overwritten after it was ingested" in letter["error"]
    assert lake.ids() == ["old 0", "old 1", "other"]


@on_spark
def test_a_change_replaces_the_rows_in_one_commit(lake: Lake) -> None:
    totals = overwritten(lake, "replace").run(late=True)
    assert (totals.overwritten, totals.commits) == (1, 1)
    assert lake.verdict().good
    assert lake.ids() == ["new 0", "new 1", "new 2", "other"]
    kinds = {name for action in lake.actions(lake.versions()[-1]) for name in action}
    assert {"add", "remove", "txn"} <= kinds
    assert lake.run(late=True).commits == 0


@on_spark
def test_a_change_to_an_unreadable_file_keeps_the_old_rows_and_is_dead_lettered(lake: Lake) -> None:
    overwritten(lake, "replace")
    lake.put_bytes("a.ndjson.gz", gzip.compress(b'{"id": "new"}')[:-4])
    lake.run(late=True)
    assert lake.ids() == ["old 0", "old 1", "other"]
    assert [(letter["path"], letter["stage"]) for letter in lake.letters()] == [("a.ndjson.gz", "decompress")]


@on_spark
def test_a_change_to_an_empty_file_removes_the_old_rows(lake: Lake) -> None:
    overwritten(lake, "replace")
    lake.put_bytes("a.ndjson.gz", b"")
    lake.run(late=True)
    assert lake.ids() == ["other"]


@on_spark
def test_files_with_hostile_paths_are_replaced_and_no_others(lake: Lake) -> None:
    lake.settings |= {"on_overwrite": "replace"}
    for n, path in enumerate(HOSTILE):
        lake.put(path, {"id": f"old {n}"})
    lake.put("day/plain.ndjson", {"id": "plain"})
    lake.run()
    for n, path in enumerate(HOSTILE[1:], 1):
        lake.put(path, {"id": f"new {n}"})
    lake.run(late=True)
    assert sorted(lake.ids()) == ["new 1", "new 2", "new 3", "old 0", "plain"]


def test_a_file_below_the_watermark_is_found_by_the_late_sweep_alone(lake: Lake) -> None:
    lake.put("m.ndjson.gz", *ids(0, 2))
    lake.run()
    lake.put("a.ndjson.gz", *ids(2, 4))
    assert lake.run(late=False).files == 1, "a draining run makes a late sweep, too"
    assert lake.verdict().good


@pytest.fixture
def closed_day(lake: Lake) -> Lake:
    """An old day, ingested and closed."""
    lake.settings |= {
        "partition_columns": {"date": "date"},
        "partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 2},
    }
    lake.table_settings = {"partition_by": ["date"]}
    lake.put("date=2024-01-28/a.ndjson.gz", *ids(0, 2))
    lake.announce("date=2024-01-28/a.ndjson.gz")
    for _ in range(3):
        lake.run()
    assert str(lake.state().closed_through) >= "date=2024-01-28"
    return lake


def test_a_late_file_in_a_closed_partition_is_ingested_once_when_its_event_comes(closed_day: Lake) -> None:
    closed_day.put("date=2024-01-28/b.ndjson.gz", *ids(2, 4))
    assert closed_day.run().files == 0
    for _ in range(2):
        closed_day.announce("date=2024-01-28/a.ndjson.gz", "date=2024-01-28/b.ndjson.gz")
        closed_day.run()
    assert closed_day.verdict().good
    assert closed_day.ids() == ["0", "1", "2", "3"]


@on_both
def test_the_query_for_suspects_reads_no_data_files_of_other_files(lake: Lake) -> None:
    """The data files with rows of other files are deleted, so a query that reads them fails."""
    name = "a-name-so-long-that-thirty-two-characters-do-not-tell-it-from-another-{}.ndjson.gz"
    for n in range(3):
        lake.put(name.format(n), *ids(n, n + 1))
        lake.run()
    rows_of = {file: path for path, file in data_files(lake).items()}
    for n in (0, 2):
        (lake.table / rows_of[name.format(n)]).unlink()
    lake.announce(name.format(1))
    totals = lake.run()
    assert (totals.duplicates, totals.files) == (1, 0)


def data_files(lake: Lake) -> dict[str, str]:
    """Data file of the table to the source file whose rows it holds."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    found = {}
    for file in lake.table.glob("*.parquet"):
        (source,) = set(pq.read_table(file).column("_source").combine_chunks().field("file").to_pylist())
        found[Path(file).name] = source
    return found
