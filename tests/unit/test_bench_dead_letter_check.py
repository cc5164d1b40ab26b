"""The check detects a dead letter that is missing, doubled or of another line."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.data import Dataset, dataset
from benchmarks.dead_letter_check import Line, broken_lines, expect_dead_letters, stored_dead_letters
from benchmarks.verify import WrongResult
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.storage.local import LocalStore

DATA = Dataset("dirty", 1.0, "", "", 0, {}, 3, 0, 0, ())
BROKEN = [Line("date=1/a", 0, "{"), Line("date=1/a", 7, '{"n":'), Line("date=2/b", 0, "-- é")]


def stored(table: Path, lines: Sequence[Line]) -> str:
    """Writes dead letters as the job does."""
    letters = DeadLetters(LocalStore(table, may_be_missing=True), "_blizzard/events_landing", "events:landing")
    letters.write_records(
        (DeadLetter(line.path, "etag", Stage.PARSE, "broken", line.row, line.raw) for line in lines), 0.0
    )
    return str(table)


def test_broken_lines_are_those_in_which_the_data_differs_from_the_same_unharmed(tmp_path: Path) -> None:
    clean, dirty, undecided = (dataset(name, 0.002, cache=tmp_path) for name in ("clean", "dirty", "undecided"))
    for data in (dirty, undecided):
        found = broken_lines(data, clean)
        assert len({*found}) == len(found) == data.broken
        for path, row, raw in (found[0], found[-1]):
            lines = gzip.decompress(Path(data.folder, path).read_bytes()).decode().split("\n")
            assert row is not None
            assert lines[row] == raw
    assert broken_lines(clean, clean) == []


def test_letters_are_read_as_they_lie_there(tmp_path: Path) -> None:
    assert sorted(stored_dead_letters(stored(tmp_path, BROKEN))) == BROKEN
    assert stored_dead_letters(str(tmp_path / "none")) == []


def test_a_letter_for_each_broken_line_is_what_is_expected(tmp_path: Path) -> None:
    expect_dead_letters(DATA, BROKEN, stored(tmp_path, BROKEN))
    expect_dead_letters(DATA, [], str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (BROKEN[:-1], "1 have none, such as .*date=2/b.*, and 0 are of no such line"),
        ([*BROKEN, Line("date=2/b", 1, "{")], "0 have none.*, and 1 are of no such line"),
        ([*BROKEN, BROKEN[-1]], "0 have none.*, and 1 are of no such line, such as .*date=2/b"),
        ([*BROKEN[:-1], BROKEN[-1]._replace(row=1)], "1 have none.*, and 1 are"),
        ([*BROKEN[:-1], BROKEN[-1]._replace(raw="-- e")], "1 have none.*, and 1 are"),
        ([BROKEN[0]._replace(path="date=1/aa"), *BROKEN[1:]], "1 have none.*, and 1 are"),
        ([], "3 have none"),
    ],
    ids=["missing", "too many", "doubled", "another row", "another text", "another file", "none at all"],
)
def test_letters_of_other_lines_are_noticed(lines: list[Line], told: str, tmp_path: Path) -> None:
    with pytest.raises(WrongResult, match=f"on dirty: expected a letter for each of 3 broken lines; {told}"):
        expect_dead_letters(DATA, BROKEN, stored(tmp_path, lines))


def test_a_letter_about_a_whole_file_is_of_no_line(tmp_path: Path) -> None:
    table = stored(tmp_path, BROKEN)
    letters = DeadLetters(LocalStore(table), "_blizzard/events_landing", "events:landing")
    letters.write_file(DeadLetter("date=1/c", "etag", Stage.DECOMPRESS, "no gzip"), 0.0)
    with pytest.raises(WrongResult, match="1 are of no such line"):
        expect_dead_letters(DATA, BROKEN, table)


def test_a_letter_keeps_bytes_that_are_no_text_which_no_line_here_is(tmp_path: Path) -> None:
    table = stored(tmp_path, BROKEN[:-1])
    letters = DeadLetters(LocalStore(table), "_blizzard/events_landing", "events:landing")
    letters.write_records([DeadLetter("date=2/b", "etag", Stage.PARSE, "not UTF-8", 0, b"\xff")], 0.0)
    with pytest.raises(WrongResult, match="1 have none"):
        expect_dead_letters(DATA, BROKEN, table)
