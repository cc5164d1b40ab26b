"""What a campaign compares with: a wrong letter, a lost commit or a lost content is seen, whatever the product says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from infra.local.demo.reconcile import Source
from tests.proof.kill import letters as kill_letters
from tests.proof.kill.commit_claims import claimed_commits, missing_from_log
from tests.proof.kill_calls.account import CHANGED, History, account, strangers, wrong_letters
from tests.proof.kill_calls.places import MANY, Places
from tests.proof.race.account import Row as RacedRow
from tests.proof.race.account import rows_before
from tests.unit.fakes import POISON, REFUSED, Row

LARGE = [f"large {n}" for n in range(10)]


def history_of(*contents: Sequence[str], path: str = "a") -> History:
    """One file: its etags are its contents' numbers."""
    history = History(slice_bytes=20)
    for number, lines in enumerate(contents):
        history.put(path, f"{number}", "".join(f"{line}\n" for line in lines).encode())
    return history


def rows_of(lines: Sequence[str], etag: str, numbers: Sequence[int] | None = None) -> list[Row]:
    return [
        Row("events:landing", "a", n, etag, lines[n], 1) for n in (range(len(lines)) if numbers is None else numbers)
    ]


def letter_of(etag: str, row: int | None = None, raw: str = "", error: str = "no record") -> dict[str, Any]:
    return {"path": "a", "etag": etag, "error": error, **({} if row is None else {"row": row, "raw": raw})}


CHANGED_MEANWHILE = letter_of("0", error=CHANGED)


def test_a_table_with_each_record_once_has_no_complaints() -> None:
    bad = f"{REFUSED}2"
    history, rows = history_of(["old"], ["1", bad]), rows_of(["1"], "1")
    letters = [letter_of("1", 1, bad)]
    found = account(history, rows, letters, history.paths)
    assert (found.missing, found.more, found.silent, found.records) == ([], [], [], 1)
    assert not [*wrong_letters(history, letters)]
    assert not strangers(history, rows)


def test_content_overwritten_while_in_progress_needs_a_dead_letter_and_the_new_rows() -> None:
    history = history_of(LARGE, ["new"])
    found = account(history, rows_of(["new"], "1"), [CHANGED_MEANWHILE], history.paths)
    assert (found.missing, found.more) == ([], [])
    assert not [*wrong_letters(history, [CHANGED_MEANWHILE])]


def test_a_dead_letter_does_not_excuse_missing_new_content() -> None:
    history = history_of(LARGE, ["new"])
    found = account(history, rows_of(LARGE, "0", [0]), [CHANGED_MEANWHILE], history.paths)
    assert (found.missing, found.more) == ([("a", 0, "1", "new")], [("a", 0, "0", LARGE[0])])


@pytest.mark.parametrize("contents", [[["small"], ["new"]], [LARGE]], ids=["not large", "not overwritten"])
def test_content_that_was_never_in_progress_has_no_such_dead_letter(contents: list[list[str]]) -> None:
    assert [*wrong_letters(history_of(*contents), [CHANGED_MEANWHILE])]


def test_a_dead_letter_of_old_content_does_not_count_for_the_new_content() -> None:
    history = history_of([f"{REFUSED}1"], [f"{REFUSED}1"])
    assert account(history, [], [letter_of("0", 0, f"{REFUSED}1")], history.paths).silent == [("a", 0, "1")]


def test_rows_of_old_content_do_not_count_for_the_new_content() -> None:
    history = history_of(["same"], ["same"])
    found = account(history, rows_of(["same"], "0"), [], history.paths)
    assert (found.missing, found.more) == ([("a", 0, "1", "same")], [("a", 0, "0", "same")])


@pytest.mark.parametrize(
    "letters",
    [
        [letter_of("1", 0, f"{REFUSED}1")] * 2,
        [letter_of("1", 1, "good")],
        [letter_of("1", 0, "else")],
        [letter_of("7", 0, f"{REFUSED}1")],
        [letter_of("1")],
        [CHANGED_MEANWHILE],
        [{**letter_of("1", 0, f"{REFUSED}1"), "path": "b"}],
    ],
    ids=["twice", "a good record", "another text", "another content", "a good file", "never begun", "another file"],
)
def test_unexpected_dead_letters_are_reported(letters: list[dict[str, Any]]) -> None:
    assert [*wrong_letters(history_of(["old"], [f"{REFUSED}1", "good"]), letters)]


def test_an_unreadable_file_has_one_dead_letter() -> None:
    history = History(slice_bytes=20)
    history.put("a", "0", POISON)
    assert account(history, [], [], ["a"]).silent == [("a", None, "0")]
    assert not account(history, [], [letter_of("0")], ["a"]).silent
    assert not [*wrong_letters(history, [letter_of("0")])]


def test_rows_without_a_source_file_are_reported() -> None:
    assert strangers(History(20), rows_of(["x"], "0")) == ["a"]


# -- of the real job


SOURCE = Source(2, {("a", 0): {"id": "1"}}, frozenset({("a", 1)}), frozenset({"b"}))
ETAGS = {"a": "2", "b": "2"}
RIGHT = [{"path": "a", "row": 1, "etag": "2"}, {"path": "b", "etag": "2"}]


def test_dead_letters_of_the_current_content_are_right() -> None:
    assert not [*kill_letters.wrong_letters(RIGHT, SOURCE, ETAGS)]
    old = [*RIGHT, {"path": "a", "row": 0, "etag": "1"}]
    assert not [*kill_letters.wrong_letters(old, SOURCE, ETAGS, {"a"})]


@pytest.mark.parametrize(
    ("letters", "why"),
    [
        (RIGHT[1:], "neither in the table nor dead-lettered: [('a', 1)]"),
        ([{**RIGHT[0], "etag": "1"}, RIGHT[1]], "neither in the table nor dead-lettered: [('a', 1)]"),
        ([*RIGHT, {"path": "a", "row": 0, "etag": "2"}], "dead-lettered, and no fault: [('a', 0)]"),
        ([*RIGHT, RIGHT[1]], "dead-lettered twice: [('b', None, '2')]"),
        ([*RIGHT, {**RIGHT[1], "etag": "1"}], "dead-lettered with a content that never was: [('b', None, '1')]"),
    ],
)
def test_each_wrong_dead_letter_is_named(letters: list[dict[str, Any]], why: str) -> None:
    assert [*kill_letters.wrong_letters(letters, SOURCE, ETAGS, {"a"})] == [why]


def test_a_commit_that_a_job_logged_must_be_in_the_table_log() -> None:
    events: list[Mapping[str, Any]] = [
        {"event": "batch_read", "source": "p:s", "receipt": "1"},
        {"event": "batch_committed", "source": "p:s"},
        {"event": "batch_read", "source": "p:s", "receipt": "2"},
        {"event": "race_lost", "source": "p:s"},
    ]
    assert [*claimed_commits(events)] == [("p:s", "1")]
    state = '{"pipeline": "p", "source": "s", "receipt": "1"}'
    log = [(0, [{"commitInfo": {"operation": "OPTIMIZE"}}]), (1, [{"commitInfo": {"userMetadata": state}}])]
    assert missing_from_log(claimed_commits(events), log) is None
    assert (
        missing_from_log(claimed_commits(events), log[:1])
        == "a job believes to have committed what is not in the log: [('p:s', '1')]"
    )


def test_a_file_is_in_progress_while_a_part_of_its_newest_content_is_in_the_table() -> None:
    history = History(slice_bytes=10)
    history.put("a", "e1", b"1\n2\n3\n")
    history.put("b", "e2", b"1\n")
    rows = [Row("s", "a", 0, "e1", "1", 1), Row("s", "b", 0, "e2", "1", 1)]
    assert history.in_progress([]) == []
    assert history.in_progress(rows) == ["a"]
    assert history.in_progress([*rows, Row("s", "a", 1, "e1", "2", 2), Row("s", "a", 2, "e1", "3", 2)]) == []
    history.put("a", "e3", b"4\n")
    assert history.in_progress(rows) == []


def test_a_place_is_untried_until_a_process_of_that_kind_is_killed_there() -> None:
    places = Places()
    for _ in range(MANY - 1):
        places.saw("job", ["get"])
    places.saw("sweeper", ["list"])
    assert places.spared("job") == [("get", False), ("get", True)]
    assert places.spared_of_many == []
    places.saw("job", ["get", "put"])
    assert places.spared_of_many == ["before get of a job", "after get of a job"]
    places.died("sweeper", "get", after=False)
    places.died("job", "get", after=False)
    assert places.spared_of_many == ["after get of a job"]
    assert places.spared("job") == [("get", True), ("put", False), ("put", True)]
    places.died("job", "get", after=True)
    assert places.spared_of_many == []
    assert places.killed_at == 3


# --- a DELETE that does not know a new column ---

OLD_SCHEMA, NEW_SCHEMA = frozenset({"id", "n", "f1"}), frozenset({"id", "n", "f1", "f2"})


def raced_row(number: int, **values: int) -> RacedRow:
    return ("events:landing", "a", number, f"{number}", number, tuple(values.items()))


REMOVED = Counter([raced_row(1, f1=1, f2=2), raced_row(2, f2=3), raced_row(3, f1=4)])


@pytest.mark.parametrize(
    ("added", "schemas", "before"),
    [
        ([], [OLD_SCHEMA, NEW_SCHEMA], []),
        ([raced_row(2)], [OLD_SCHEMA, NEW_SCHEMA], [raced_row(2, f2=3)]),
        (
            [raced_row(1, f1=1), raced_row(2)],
            [frozenset(), OLD_SCHEMA, NEW_SCHEMA],
            [raced_row(1, f1=1, f2=2), raced_row(2, f2=3)],
        ),
        ([raced_row(1)], [OLD_SCHEMA - {"f1"}, OLD_SCHEMA, NEW_SCHEMA], [raced_row(1, f1=1, f2=2)]),
    ],
    ids=["lost nothing", "lost one", "lost two", "was analysed two schemas before"],
)
def test_a_delete_may_have_lost_the_values_of_columns_that_it_does_not_know(
    added: list[RacedRow], schemas: list[frozenset[str]], before: list[RacedRow]
) -> None:
    assert rows_before(Counter(added), REMOVED, schemas) == Counter(before)


@pytest.mark.parametrize(
    ("added", "schemas"),
    [
        ([raced_row(1, f2=2)], [OLD_SCHEMA, NEW_SCHEMA]),
        ([raced_row(2)], [NEW_SCHEMA, NEW_SCHEMA]),
        ([raced_row(2)], [NEW_SCHEMA]),
        ([raced_row(1, f1=9)], [OLD_SCHEMA, NEW_SCHEMA]),
        ([raced_row(9)], [OLD_SCHEMA, NEW_SCHEMA]),
        ([raced_row(2), raced_row(2)], [OLD_SCHEMA, NEW_SCHEMA]),
        ([raced_row(1, f1=1), raced_row(2, f2=3)], [OLD_SCHEMA, NEW_SCHEMA]),
    ],
    ids=["an old column", "no new column", "one schema", "another value", "another row", "a row twice", "not of all"],
)
def test_a_delete_that_has_done_more_is_seen(added: list[RacedRow], schemas: list[frozenset[str]]) -> None:
    assert rows_before(Counter(added), REMOVED, schemas) is None
