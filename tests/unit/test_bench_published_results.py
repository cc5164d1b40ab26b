"""The published documents match the stored results, and how they are regenerated."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.chart import chart
from benchmarks.goals import goals_of
from benchmarks.published_results import (
    CannotPublish,
    Documents,
    as_json,
    merge_results,
    read_results,
    regenerated,
    replace_block,
    without_long_lists,
)
from benchmarks.result import Result, Table
from benchmarks.stats import TIMES, Spread, evaluate_goals
from benchmarks.summary import as_summary
from tests.unit.bench_results import BIG, BIG_ON_ONE, MACHINE, SMALL

ROOT = Path(__file__).parents[2]
KEPT = Documents(ROOT / "docs" / "performance.json")
NOT_KEPT_YET = frozenset[str]()
"""New benchmarks, until their first results are published."""
AGAIN = "`python -m benchmarks --read docs/performance.json --keep docs/performance.json` regenerates it"


# --- What is kept ---


def test_the_page_and_the_picture_say_what_the_kept_results_say() -> None:
    for file, text in regenerated(KEPT, json.loads(KEPT.json.read_text())):
        assert file.read_text() == text, f"{file.name}: {AGAIN}"


def test_what_the_page_shows_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--read", str(KEPT.json), "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n| ") > 50
    assert f"<!-- measured: what came out -->\n\n{printed}\n<!-- end" in KEPT.page.read_text()
    assert KEPT.picture.read_text() == chart(read_results(KEPT.json)[1])


def test_the_kept_results_are_of_the_full_size_and_lack_no_benchmark() -> None:
    machine, results = read_results(KEPT.json)
    assert {result.name for result in results} == {*command.BENCHMARKS} - NOT_KEPT_YET
    assert {result.scale for result in results} == {1.0}
    assert merge_results([(machine, results)]) == (machine, results)


def test_each_benchmark_says_which_names_its_files_have() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .+? \| ((?:in order|both|none)\b[^|]*) \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == [*command.BENCHMARKS]
    bare = [name for name, said in rows if said.strip() in ("in order", "none")]
    assert not bare, "and why that is enough"


def test_the_kept_goals_are_the_ones_that_were_set() -> None:
    _, results = read_results(KEPT.json)
    for result in results:
        assert [goal_result.goal for goal_result in result.goal_results] == goals_of(result.name)


# --- Keeping ---


@pytest.fixture
def place(tmp_path: Path) -> Documents:
    """Copies of the documents and of the stored results."""
    (tmp_path / "docs").mkdir()
    for file in (KEPT.json, KEPT.page, KEPT.sizing, KEPT.picture):
        shutil.copy(file, tmp_path / "docs")
    return Documents(tmp_path / "docs" / "performance.json")


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., str]:
    """Writes a file as `--json` does."""

    def write(name: str, *results: Result) -> str:
        (tmp_path / name).write_text(as_json(MACHINE, results))
        return str(tmp_path / name)

    return write


def texts_of(place: Documents) -> list[str]:
    return [file.read_text() for file in (place.json, place.page, place.sizing, place.picture)]


def test_one_command_writes_all_documents_anew(
    place: Documents, bench: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts_of(place)
    assert command.main(["--read", bench("a.json", BIG), bench("b.json", SMALL), "--keep", str(place.json)]) == 0
    assert all(new != old for new, old in zip(texts_of(place), before, strict=True))
    assert "what big is" in capsys.readouterr().out
    for file in (place.json, place.page, place.picture):
        assert "what big is" in file.read_text()
        assert "what small is" in file.read_text()
    assert [result.name for result in read_results(place.json)[1]] == ["big", "small"]
    assert "### Goals that were not met, and why" in place.page.read_text()
    assert "## What a million files cost" in place.sizing.read_text()
    assert "Example: " in place.sizing.read_text()


def test_keeping_once_more_changes_nothing(place: Documents) -> None:
    before = texts_of(place)
    assert command.main(["--read", str(place.json), "--keep", str(place.json)]) == 0
    assert texts_of(place) == before


def test_a_later_file_takes_the_place_of_an_earlier_ones_results(place: Documents, bench: Callable[..., str]) -> None:
    newer = replace(BIG, what="measured again")
    command.main(["--read", bench("a.json", SMALL, BIG, BIG_ON_ONE), bench("b.json", newer), "--keep", str(place.json)])
    kept = [(result.name, result.cores, result.what) for result in read_results(place.json)[1]]
    assert kept == [("big", 2, "measured again"), ("big", 1, "what big is"), ("small", 2, "what small is")]


OTHER = {**MACHINE, "kernel": "Linux 7"}


def test_results_of_another_machine_say_so(
    place: Documents, bench: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text(as_json(OTHER, [SMALL]))
    files = [bench("a.json", BIG), str(tmp_path / "b.json")]
    assert command.main(["--read", *files, "--keep", str(place.json)]) == 0
    shown = place.page.read_text()
    assert "a processor, 2 cores, 16 GiB, Linux 6; " in shown
    assert "Measured on another machine: small, on a processor, 2 cores, 16 GiB, Linux 7; " in shown
    assert "Example: " not in place.sizing.read_text(), "rates of two machines make none"
    kept = texts_of(place)
    assert command.main(["--read", str(place.json), "--keep", str(place.json)]) == 0
    assert texts_of(place) == kept
    capsys.readouterr()
    assert command.main(["--read", str(place.json)]) == 0
    assert "Measured on another machine: small, on" in capsys.readouterr().out


def test_one_benchmark_is_not_of_two_machines(
    place: Documents, bench: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its growth with cores would be that of the machines."""
    (tmp_path / "b.json").write_text(as_json(OTHER, [BIG_ON_ONE]))
    before = texts_of(place)
    files = [bench("a.json", BIG), str(tmp_path / "b.json")]
    assert command.main(["--read", *files, "--keep", str(place.json)]) == 2
    assert "big: expected results of one machine, found those of two" in capsys.readouterr().err
    assert texts_of(place) == before


@pytest.mark.parametrize("trouble", ["scale", "mark", "end"])
def test_what_cannot_be_kept_changes_no_document(
    place: Documents,
    bench: Callable[..., str],
    trouble: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [bench("a.json", replace(BIG, scale=0.5 if trouble == "scale" else 1.0))]
    if trouble in ("mark", "end"):
        lost = (
            "<!-- measured: figures of the benchmarks -->" if trouble == "mark" else "<!-- end of what was measured -->"
        )
        place.page.write_text(place.page.read_text().replace(lost, ""))
    before = texts_of(place)
    assert command.main(["--read", *files, "--keep", str(place.json)]) == 2
    assert "expected" in capsys.readouterr().err
    assert texts_of(place) == before


def test_lists_of_single_events_are_left_out_and_rounds_are_kept() -> None:
    found = without_long_lists(
        {"secs": [1.0, 2.0], "commits": [{"n": n} for n in range(31)], "deep": {"each": [*range(99)]}}
    )
    assert found == {"secs": [1.0, 2.0], "commits": {"left out": 31}, "deep": {"each": {"left out": 99}}}
    assert without_long_lists([*range(30)]) == [*range(30)]


def test_what_stands_between_marks_is_replaced_and_nothing_else() -> None:
    text = "a\n<!-- measured: x -->\nold\n<!-- end of what was measured -->\nb\n"
    new = replace_block(text, "x", "new")
    assert new == text.replace("old\n", "\nnew\n\n")
    assert replace_block(new, "x", "new") == new
    with pytest.raises(CannotPublish, match="measured: y"):
        replace_block(text, "y", "new")


# --- The short tables ---


def rows_of(text: str, column: int = 0) -> list[str]:
    return [line.split(" | ")[column].strip("| ") for line in text.splitlines() if line.startswith("| ")]


def test_the_summary_has_cold_beside_warm_and_whether_goals_were_met() -> None:
    told = as_summary(MACHINE, [BIG, SMALL])
    assert "second run of a process (warm) | 9 (8..10) | 20 (18..24) | 2 (2..3) | " in told
    cold = "first run of a process (cold), start of interpreter and JVM included"
    assert f"{cold} | 27 (24..30) | 80 (72..96) | 2.67 (2.67..4) | " in told
    verdicts = [line.split(" | ", 4)[-1] for line in told.splitlines()[2:6]]
    assert verdicts == [
        f"≥ 1.30{TIMES} | met |",
        f"≥ 2{TIMES} | met |",
        f"≥ 15{TIMES} | met, one round |",
        f"≥ 15{TIMES} | met, one round |",
    ]


def test_the_summary_says_what_finding_files_takes_by_the_size_of_what_is_known() -> None:
    kinds = ("steady", "first", "swept", "streaming")
    secs = {
        known: {kind: [1.0 * n, 9.0, 0.1] for n, kind in enumerate(kinds, 2 + more)}
        for more, known in ((0, "10"), (10, "900"))
    }
    told = as_summary(MACHINE, [Result("find", "files", (), raw={"secs": secs})])
    assert rows_of(told, 1) == ["measured", "2 s", "9 s", "9 s", "9 s", "9 s"]
    assert [row.split(" known")[0] for row in rows_of(told)[1:]] == [
        "100 new files among 10",
        *["100 new files among 900"] * 4,
    ]


def test_of_s3_and_latency_the_summary_has_the_goals() -> None:
    goal_results = {
        name: tuple(evaluate_goals(goals_of(name), {"big": Spread.of([0.7, 0.9]), "p50": Spread.of([1.0])}, {}))
        for name in ("s3", "latency")
    }
    told = as_summary(MACHINE, [Result(name, "", (), each) for name, each in goal_results.items()])
    assert "| 1 s | ≤ 3 s | met, one round |" in told
    assert f"| 0.80 (0.70..0.90){TIMES} | ≥ 0.80{TIMES} | met by the median |" in told
    assert len(rows_of(told)) == 3


def test_tables_without_rows_are_no_reason_to_fail() -> None:
    assert as_summary(MACHINE, [Result("plan", "a plan", (Table(("a",), ()),))]).strip() == ""
