"""What the local engine reads of a table's data files to answer questions about the rows of one source."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.errors import NotFound, RetryableError
from blizzard.state.run_ref import SequenceRange
from blizzard.table import source_column
from spark_job.engines.local import source_rows
from spark_job.engines.local.source_rows import SourceRows
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import FileVersion, SourceFile
from tests.unit.added_rows import AddedRows, Row, number_hash

OURS, PARTNER, OLD = "events:landing", "events:partner", "events:old"
ALL = SequenceRange(0, 100)
NO_OTHERS = frozenset({OURS, PARTNER})
QUESTIONS: dict[str, Callable[[SourceRows], object]] = {
    "exist": lambda rows: rows.exist(),
    "last_rows": lambda rows: rows.last_rows(after_sequence=-1),
    "files_of_commits": lambda rows: rows.files_of_commits(ALL),
}


@pytest.fixture
def table(tmp_path: Path) -> AddedRows:
    return AddedRows(tmp_path / "table")


# -- what is read


@pytest.mark.parametrize("question", [*QUESTIONS, "of_nobody_exist", "newest_files_of_others"])
def test_a_small_part_of_each_data_file_is_read(table: AddedRows, question: str) -> None:
    questions = {
        **QUESTIONS,
        "of_nobody_exist": lambda rows: rows.of_nobody_exist(),
        "newest_files_of_others": lambda rows: rows.newest_files_of_others(NO_OTHERS, 100),
    }
    for file in range(3):
        table.add(*(Row(PARTNER, f"f{file}", n) for n in range(200)), stats="rows", payload_bytes=10_000)
    rows, store = table.rows()
    assert not questions[question](rows)
    assert len(store.keys) == 3
    assert table.size > 9_000_000
    assert store.read_bytes < 0.03 * table.size
    assert len(store.read) == 6


def test_files_whose_statistics_exclude_the_source_are_not_read(table: AddedRows) -> None:
    table.add(Row("events:a"), Row("events:k"))
    table.add(Row("events:landing2"), Row(PARTNER))
    table.add(Row(None), Row(None))
    rows, store = table.rows()
    assert not any(ask(rows) for ask in QUESTIONS.values())
    assert store.read == []


def test_files_of_other_commits_are_not_read(table: AddedRows) -> None:
    table.add(Row(sequence=1))
    wanted = table.add(Row(sequence=2), Row(sequence=3))
    table.add(Row(sequence=4))
    rows, store = table.rows()
    assert [entry.sequence for entry in rows.files_of_commits(SequenceRange(3, 3))] == [3]
    assert store.keys == {wanted}
    assert rows.last_rows(after_sequence=4) == {}
    assert store.keys == {wanted}


def test_files_of_known_sources_are_not_searched_for_others(table: AddedRows) -> None:
    for source in (OURS, PARTNER, None):
        table.add(Row(source), Row(source))
    mixed = table.add(Row(OURS), Row("events:m", "other"), Row(PARTNER))
    rows, store = table.rows()
    assert [*rows.newest_files_of_others(NO_OTHERS, 100)] == [SourceFile("events:m", "other", "e-other")]
    assert store.keys == {mixed}


def test_one_file_that_holds_the_source_by_its_statistics_is_enough(table: AddedRows) -> None:
    table.add(Row("events:a"), Row(PARTNER), stats="true")
    holds_it = table.add(Row(), Row())
    for _ in range(5):
        table.add(Row("events:a"), Row(PARTNER), stats="true")
        table.add(Row(PARTNER), stats="none")
    rows, store = table.rows()
    assert rows.exist()
    assert store.keys == {holds_it}


def test_one_file_with_rows_of_nobody_is_enough(table: AddedRows) -> None:
    table.add(Row(), stats="none")
    of_nobody = table.add(Row(), Row(None))
    table.add(Row())
    table.add(Row(), stats="none")
    rows, store = table.rows()
    assert rows.of_nobody_exist()
    assert store.keys == {of_nobody}


def test_files_that_name_all_sources_are_not_searched_for_rows_of_nobody(table: AddedRows) -> None:
    table.add(Row())
    rows, store = table.rows()
    assert not rows.of_nobody_exist()
    assert store.read == []


def test_the_search_for_the_newest_files_ends_with_those_that_may_be_newer(table: AddedRows) -> None:
    for time in range(50):
        table.add(Row(OLD, f"f{time}", time=time * 1000), Row(OLD, f"older {time}", time=time - 30_000))
    rows, store = table.rows()
    assert [file.path for file in rows.newest_files_of_others(NO_OTHERS, 3)] == ["f49", "f48", "f47"]
    assert len(store.keys) <= 5
    table.add(Row(OLD, "unknown", time=100_000), stats="none")
    rows, store = table.rows()
    assert [file.path for file in rows.newest_files_of_others(NO_OTHERS, 2)] == ["unknown", "f49"]


def test_the_newest_file_is_found_within_the_millisecond_that_statistics_tell(table: AddedRows) -> None:
    table.add(Row(OLD, "newest", time=900))
    table.add(Row(OLD, "newer", time=500))
    rows, _ = table.rows()
    assert [file.path for file in rows.newest_files_of_others(NO_OTHERS, 1)] == ["newest"]


def test_of_a_row_group_without_others_only_the_source_is_read(table: AddedRows) -> None:
    table.add(*(Row(PARTNER, f"{n:0300}", n) for n in range(5_000)), stats="none", group_rows=1_000, payload_bytes=128)
    rows, store = table.rows()
    assert not rows.newest_files_of_others(NO_OTHERS, 5)
    assert store.read_bytes < source_column.FOOTER_BYTES + 5 * 1_000


@pytest.mark.parametrize("held_bytes", [0, 8 << 20])
def test_large_row_groups_are_read_in_pieces(
    table: AddedRows, monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr(source_column, "HELD_BYTES", held_bytes)
    monkeypatch.setattr(source_column, "BATCH_ROWS", 100)
    monkeypatch.setattr(source_column, "PIECE_BYTES", 20_000)
    names = [b"".join(number_hash(b"%d" % n, part) for part in range(8)).hex() for n in range(3_000)]
    written = [Row(row=n, file=name, sequence=n // 1_500) for n, name in enumerate(names)]
    table.add(*written, group_rows=1_000, payload_bytes=64)
    rows, store = table.rows()
    expected = {FileVersion(row.file, f"e-{row.file}"): row.row for row in written}
    assert rows.last_rows(after_sequence=-1) == expected
    group_reads = store.read[1:]
    assert (len(group_reads) == 3) == (held_bytes > 0)
    assert (max(size for _, size in group_reads) > 200_000) == (held_bytes > 0)
    assert sum(entry.rows for entry in rows.files_of_commits(ALL)) == 3_000


def test_a_missing_data_file_is_an_error(table: AddedRows) -> None:
    path = table.add(Row(), stats="none")
    rows, _ = table.rows()
    (table.folder / path).unlink()
    with pytest.raises(NotFound, match=path):
        rows.exist()


@pytest.mark.parametrize("damaged", [slice(-9, None), slice(4, 400)], ids=["the footer", "the pages"])
def test_a_damaged_data_file_is_named(table: AddedRows, damaged: slice) -> None:
    path = table.add(*(Row(file=f"f{n}") for n in range(9)), stats="none")
    rows, _ = table.rows()
    data = bytearray((table.folder / path).read_bytes())
    data[damaged] = b"x" * len(data[damaged])
    (table.folder / path).write_bytes(data)
    with pytest.raises(RetryableError, match=rf"the data file {path} cannot be read \(.*\)\. Restore it"):
        rows.files_of_commits(ALL)


# -- what is found


def test_a_source_with_a_name_longer_than_its_statistics_is_found(table: AddedRows) -> None:
    """Delta's writers cut bounds to 32 characters, and end upper ones with a character that is greater than any."""
    long = "events:" + "x" * 60
    path = table.add(Row(long), stats="none")
    table.adds.clear()
    bound = long[:32]
    low, high = {"_source": {"source": bound}}, {"_source": {"source": f"{bound}\x7f"}}
    table.add_file(
        path, {"numRecords": 1, "minValues": low, "maxValues": high, "nullCount": {"_source": {"source": 0}}}
    )
    assert table.rows(long)[0].exist()
    assert not table.rows(f"{long}x")[0].exist()
    assert table.rows()[0].newest_files_of_others(frozenset({bound}), 1) == [SourceFile(long, "f", "e-f")]


def test_rows_of_files_that_lack_fields_belong_to_nobody(table: AddedRows) -> None:
    """Those that another program wrote, or that are older than the column."""
    table.fields = ("file", "row")
    table.add(Row(), stats="rows")
    rows, _ = table.rows()
    assert rows.of_nobody_exist()
    assert not rows.exist()
    assert not rows.files_of_commits(ALL)
    assert not rows.newest_files_of_others(NO_OTHERS, 1)


def test_a_table_without_data_files_holds_nothing(table: AddedRows) -> None:
    rows, _ = table.rows()
    assert not any(ask(rows) for ask in QUESTIONS.values())
    assert not rows.of_nobody_exist()
    assert not rows.newest_files_of_others(NO_OTHERS, 1)


# -- what is left to Spark


@pytest.mark.parametrize("question", QUESTIONS)
def test_many_data_files_are_left_to_spark(table: AddedRows, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    monkeypatch.setattr(source_rows, "MAX_FILES_READ", 3)
    for number in range(3):
        table.add(Row(PARTNER, f"{number}"), stats="rows")
    assert not QUESTIONS[question](table.rows()[0])
    for number in range(50):
        table.add(Row(PARTNER, f"{number}"), stats="true")
    assert not QUESTIONS[question](table.rows()[0])
    table.add(Row(PARTNER), stats="none")
    rows, store = table.rows()
    with pytest.raises(NeedsSpark, match="4 data files, more than 3"):
        QUESTIONS[question](rows)
    assert store.read == []


@pytest.mark.parametrize("stats", ["rows", "none"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_many_rows_are_left_to_spark(
    table: AddedRows, monkeypatch: pytest.MonkeyPatch, question: str, stats: str
) -> None:
    monkeypatch.setattr(source_rows, "MAX_ROWS_READ", 29)
    for _ in range(3):
        table.add(*(Row(PARTNER, row=n) for n in range(10)), stats=stats)
    rows, store = table.rows()
    with pytest.raises(NeedsSpark, match="30 rows, more than 29"):
        QUESTIONS[question](rows)
    assert len(store.keys) == (3 if stats == "none" else 0)


def test_a_source_that_many_files_hold_is_found_without_spark(
    table: AddedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_rows, "MAX_FILES_READ", 3)
    for _ in range(10):
        table.add(Row(), Row(None))
    rows, _ = table.rows()
    assert rows.exist()
    assert rows.of_nobody_exist()


def test_the_newest_files_of_many_are_found_without_spark(table: AddedRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rows, "MAX_FILES_READ", 3)
    for time in range(10):
        table.add(Row(OLD, f"f{time}", time=time * 10_000))
    rows, _ = table.rows()
    assert [file.path for file in rows.newest_files_of_others(NO_OTHERS, 2)] == ["f9", "f8"]
    with pytest.raises(NeedsSpark, match="4 data files"):
        rows.newest_files_of_others(NO_OTHERS, 5)


# -- any table

some_rows = st.builds(
    Row,
    source=st.sampled_from([None, OURS, PARTNER, OLD, "events:m", "z"]),
    file=st.sampled_from("abc"),
    row=st.integers(0, 9),
    sequence=st.integers(0, 4),
    time=st.integers(-9, 9).map(lambda number: 400 * number),
)
files = st.lists(
    st.tuples(st.lists(st.none() | some_rows, min_size=1, max_size=6), st.sampled_from(["true", "rows", "none"]))
)


@settings(max_examples=60, deadline=None)
@given(files=files, first=st.integers(0, 4), limit=st.integers(1, 4))
def test_any_table_is_answered_as_if_all_rows_were_read(
    files: Sequence[tuple[Sequence[Row | None], str]], first: int, limit: int
) -> None:
    with TemporaryDirectory() as folder:
        table = AddedRows(Path(folder) / "table")
        for rows_of_file, stats in files:
            table.add(*rows_of_file, stats=stats, group_rows=2)
        rows, _ = table.rows()
        written = [row or Row(None) for rows_of_file, _ in files for row in rows_of_file]
        ours = [row for row in written if row.source == OURS]
        assert rows.exist() == bool(ours)
        assert rows.of_nobody_exist() == any(row.source is None for row in written)
        newer = [row for row in ours if row.sequence >= first]
        last = {row.file: max(r.row for r in newer if r.file == row.file) for row in newer}
        found = rows.last_rows(after_sequence=first - 1)
        assert {version.path: row for version, row in found.items()} == last
        entries = rows.files_of_commits(SequenceRange(first, 9))
        expected = {(row.file, row.sequence): sum(_same(row, other) for other in newer) for row in newer}
        assert {(entry.path, entry.sequence): entry.rows for entry in entries} == expected
        assert len(entries) == len(expected)
        others = [row for row in written if row.source and row.source not in NO_OTHERS]
        times = {(row.source, row.file): max(o.time for o in others if o[:2] == row[:2]) for row in others}
        newest = [times.pop((file.source, file.path)) for file in rows.newest_files_of_others(NO_OTHERS, limit)]
        assert len(newest) == min(limit, len(newest) + len(times))
        assert min(newest, default=0) >= max(times.values(), default=-9_999) or not times


def _same(row: Row, other: Row) -> bool:
    return (row.file, row.sequence) == (other.file, other.sequence)
