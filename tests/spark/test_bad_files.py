"""Bad input is dead-lettered file by file with its reason, and all other files of the batch are ingested."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import PermanentError
from tests.spark.engine_lake import ON_BOTH, EngineLake, lake_of
from tests.spark.lake import Lake, ids

MIB = 1 << 20
DAY = "date=2024-01-28"
HOSTILE = f'{DAY}/it\'s a "key" \\ 100% + \u00e9.ndjson'
SETTINGS = {"partition_columns": {"date": "date"}, "limits": {"max_file_bytes": "4MiB", "max_record_bytes": "1MiB"}}


@pytest.fixture(params=["local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineLake]:
    with lake_of(request, tmp_path) as made:
        yield made


on_both = pytest.mark.parametrize("lake", ON_BOTH, indirect=True)


@pytest.fixture(scope="module", params=ON_BOTH)
def lake_with_bad_files(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineLake]:
    """One batch with a file of every kind."""
    with lake_of(request, tmp_path_factory.mktemp("files"), SETTINGS, {"partition_by": ["date"]}) as lake:
        ingest_files_of_every_kind(lake)
        yield lake


def ingest_files_of_every_kind(lake: Lake) -> None:
    whole = gzip.compress("".join(json.dumps(record) + "\n" for record in ids(0, 300)).encode())
    lake.put(f"{DAY}/good.ndjson", *ids(0, 3))
    lake.put_bytes(f"{DAY}/good.ndjson.gz", whole)
    lake.put(HOSTILE, *ids(10, 12))
    lake.put_bytes(f"{DAY}/truncated.ndjson.gz", whole[:-50])
    lake.put_bytes(f"{DAY}/no-gzip.ndjson.gz", b'{"id": "a"}\n')
    lake.put_bytes(f"{DAY}/no-utf8.ndjson", b'{"id": "a"}\n{"id": "\xff"}\n')
    lake.put_bytes(f"{DAY}/empty.ndjson", b"")
    lake.put_bytes(f"{DAY}/blank.ndjson", b"\n \n")
    lake.put(f"{DAY}/broken.ndjson", '{"id": "0"}', '{"id": "1', "[1]", '{"id": "3"} {"id": "4"}', "NaN", '{"id": "5"}')
    lake.put_bytes(f"{DAY}/long-line.ndjson", b'{"id": "a"}\n{"id": "' + b"x" * (100 * MIB) + b'"}\n')
    with gzip.open(lake.put_bytes(f"{DAY}/bomb.ndjson.gz", b""), "wb", compresslevel=1) as file:
        file.writelines(b'{"id": "a"}\n' * (MIB // 12) for _ in range(20))
    lake.put("no-folder.ndjson", *ids(0, 1))
    lake.put("date=yesterday/no-date.ndjson", *ids(0, 1))
    gone = lake.put(f"{DAY}/gone.ndjson", *ids(0, 1))
    job = lake.job()
    job.sweep(late=False, record_if_empty=True)
    gone.unlink()
    job.ingest.drain()


def letters_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    return [letter for letter in lake.letters() if letter["path"].endswith(name)]


def test_good_files_are_ingested_beside_bad_ones(lake_with_bad_files: Lake) -> None:
    assert lake_with_bad_files.files() == {
        f"{DAY}/good.ndjson": 3,
        f"{DAY}/good.ndjson.gz": 300,
        HOSTILE: 2,
        f"{DAY}/broken.ndjson": 2,
    }


@pytest.mark.parametrize(
    ("name", "stage", "reason"),
    [
        ("truncated.ndjson.gz", "decompress", "truncated gzip"),
        ("no-gzip.ndjson.gz", "decompress", "not valid gzip"),
        ("no-utf8.ndjson", "parse", "not UTF-8: line 1 at byte 8"),
        ("long-line.ndjson", "parse", "limit max_record_bytes"),
        ("bomb.ndjson.gz", "decompress", "limit max_file_bytes"),
        ("no-folder.ndjson", "parse", "found no `date=` folder"),
        ("no-date.ndjson", "parse", "found `date=yesterday`"),
        ("gone.ndjson", "download", "gone"),
    ],
)
def test_a_file_that_cannot_be_read_is_dead_lettered_alone(
    lake_with_bad_files: Lake, name: str, stage: str, reason: str
) -> None:
    (letter,) = letters_of(lake_with_bad_files, name)
    assert letter["stage"] == stage
    assert reason in letter["error"]
    assert "row" not in letter


def test_broken_records_are_dead_lettered_with_number_and_text_and_the_others_keep_their_numbers(
    lake_with_bad_files: Lake,
) -> None:
    letters = letters_of(lake_with_bad_files, "broken.ndjson")
    assert {letter["row"]: letter["raw"] for letter in letters} == {
        1: '{"id": "1',
        2: "[1]",
        3: '{"id": "3"} {"id": "4"}',
        4: "NaN",
    }
    rows = [row for row in lake_with_bad_files.rows() if row["_source"]["file"].endswith("broken.ndjson")]
    assert [(row["_source"]["row"], row["id"]) for row in rows] == [(0, "0"), (5, "5")]


def test_nothing_else_is_dead_lettered(lake_with_bad_files: Lake) -> None:
    assert len(lake_with_bad_files.letters()) == 8 + 4


def test_every_file_is_counted_and_settled_including_empty_ones(lake_with_bad_files: Lake) -> None:
    (committed,) = lake_with_bad_files.logged("batch_committed")
    assert (committed["files"], committed["rows"], committed["dead_files"], committed["dead_records"]) == (
        14,
        307,
        8,
        4,
    )
    assert dict(lake_with_bad_files.state().partition_watermarks) == {
        "": "no-folder.ndjson",
        DAY: "truncated.ndjson.gz",
        "date=yesterday": "no-date.ndjson",
    }


@on_both
def test_a_refused_file_is_ingested_after_it_was_corrected(lake: Lake) -> None:
    """The table holds no rows of it under any etag, so it counts as late."""
    lake.put("a.ndjson.gz", *ids(0, 2))
    lake.put_bytes("b.ndjson.gz", gzip.compress(b'{"id": "2"}\n')[:-4])
    assert lake.run().files == 2
    assert lake.run().files == 0
    lake.put("b.ndjson.gz", *ids(2, 4))
    assert lake.run(late=True).files == 1
    assert lake.files() == {"a.ndjson.gz": 2, "b.ndjson.gz": 2}


def test_each_line_of_text_is_a_row_and_invalid_utf8_keeps_its_bytes(lake: Lake) -> None:
    lake.settings |= {"format": "text", "schema": None}
    lake.put("app.log", "first", "", "{ no json", "\u00fcber", b"na\xefve", "last")
    lake.run()
    assert [(row["_source"]["row"], row["value"]) for row in lake.rows()] == [
        (0, "first"),
        (1, ""),
        (2, "{ no json"),
        (3, "\u00fcber"),
        (5, "last"),
    ]
    (letter,) = lake.letters()
    assert (letter["row"], letter["raw_base64"]) == (4, "bmHvdmU=")


@on_both
def test_a_batch_of_only_bad_files_is_committed_so_that_none_is_read_twice(lake: Lake) -> None:
    lake.put("a.ndjson", "broken")
    lake.put_bytes("b.ndjson.gz", b"no gzip")
    assert lake.run().files == 2
    assert lake.rows() == []
    assert {letter["path"] for letter in lake.letters()} == {"a.ndjson", "b.ndjson.gz"}
    assert lake.run().files == 0


def test_a_missing_folder_stops_the_run_and_nothing_is_dead_lettered(lake: Lake) -> None:
    """As when a disk is not mounted: no file is at fault."""
    for n in range(3):
        lake.put(f"{n}.ndjson", *ids(n, n + 1))
    job = lake.job()
    job.sweep(late=False, record_if_empty=True)
    elsewhere = lake.landing().rename(lake.folder / "elsewhere")
    with pytest.raises(PermanentError, match="3 of 3 files of events:landing were refused"):
        job.ingest.drain()
    assert lake.letters() == []
    elsewhere.rename(lake.landing())
    lake.run()
    assert lake.ids() == ["0", "1", "2"]


def test_a_file_name_that_is_not_utf8_is_skipped_and_logged(lake: Lake) -> None:
    lake.put("good.ndjson", *ids(0, 1))
    folder = bytes(lake.landing())
    Path(folder.decode()).mkdir(exist_ok=True)
    with open(folder + b"/bad-\xff.ndjson", "wb") as file:  # noqa: PTH123 - a Path holds no such name
        file.write(b'{"id": "x"}\n')
    lake.run()
    assert lake.ids() == ["0"]
    assert [line["key"] for line in lake.logged("object_skipped")] == ["bad-\\udcff.ndjson"]
