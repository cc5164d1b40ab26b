"""`blizzard files`: what it says of answers that are cut, of announcements, and of paths that are meant otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.audit.lives import Life
from blizzard.cli import main
from blizzard.cli.files_meant import may_have
from blizzard.cli.files_named import Named
from blizzard.cli.files_text import facts_of
from blizzard.cli.times import shown
from tests.unit.operator_world import OperatorWorld

FIRST, SECOND = "date=2200/1.ndjson.gz", "date=2200/2.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    made = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}})
    made.land(FIRST, "a")
    made.land(SECOND, "b", None)
    made.run()
    return made


def said(world: OperatorWorld, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["files", str(world.config_file), *options]) == code
    return capsys.readouterr().out


def reason(world: OperatorWorld, capsys: pytest.CaptureFixture[str], path: str) -> str:
    (life,) = json.loads(said(world, capsys, "--json", path, code=1))
    assert life["state"] == "absent"
    return str(life["reason"])


def test_an_answer_that_is_cut_says_so(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    cut = (
        "orders:shop: only its first 1 files are shown, and there may be more: --limit N shows more, --limit 0 all of "
        "them\n"
    )
    assert said(world, capsys, "--limit", "1").endswith(cut)
    assert main(["files", str(world.config_file), "--limit", "1", "--json"]) == 0
    answer = capsys.readouterr()
    assert ([life["path"] for life in json.loads(answer.out)], answer.err) == ([FIRST], cut)


@pytest.mark.parametrize("options", [[], ["--limit", "0"], ["--limit", "3"], ["--limit", "1", FIRST, SECOND]])
def test_an_answer_with_all_that_there_is_is_not_cut(
    world: OperatorWorld, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(world, capsys, *options)
    assert (FIRST in text, SECOND in text, "--limit" in text) == (True, True, False)


def test_a_time_says_what_it_is_of(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    info = world.source.files.head(FIRST)
    assert info is not None
    text = said(world, capsys, FIRST)
    assert f" announced by   a sweep; the file is of {shown(info.modified_ts)}\n" in text
    assert " s from the time of the file to the commit\n" in text
    world.land("date=2200/3.ndjson.gz", "c")
    world.announce("date=2200/3.ndjson.gz")
    world.run(sweep=False)
    text = said(world, capsys, "date=2200/3.ndjson.gz")
    assert " announced by   an event, of 2" in text
    assert " s from its event to the commit\n" in text


@pytest.mark.parametrize(
    ("announced_ts", "said_of"),
    [(1_764_000_000.0004, "the file is"), (1_764_000_001.0, "the file or its announcement is")],
)
def test_what_an_operator_had_read_again_is_not_said_to_be_of_the_time_of_the_file(
    announced_ts: float, said_of: str
) -> None:
    life = Life("s", "p", "committed", modified_ts=1_764_000_000.0, announced_by="repair", announced_ts=announced_ts)
    assert dict(facts_of(life))["announced by"] == f"an operator; {said_of} of {shown(announced_ts)}"


def test_what_an_audit_announced_is_not_said_to_be_found_by_a_sweep_alone(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.land("date=2020/late.ndjson.gz", "late")
    assert main(["audit", str(world.config_file), "--repair"]) == 1
    world.run(sweep=False)
    text = said(world, capsys, "date=2020/late.ndjson.gz")
    assert " announced by   a late sweep, or `audit --repair`; the file is of 2" in text


@pytest.mark.parametrize("wrong", ["", " "])
def test_a_since_without_anything_is_refused(
    world: OperatorWorld, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, option in (
        ("files", "--since"),
        ("plan", "--since"),
        ("letters", "--since"),
        ("letters", "--until"),
        ("replay", "--since"),
        ("replay", "--until"),
    ):
        assert main([command, str(world.config_file), option, wrong]) == 2
        assert f"{option}: expected a date or time such as 2026-11-21" in capsys.readouterr().err


def test_a_path_of_this_machine_is_wrong_input_and_says_which_is_meant(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "expected a path below the source's `uri`, such as date=2026-11-21/0001.ndjson.gz"
    for wrong in (
        f"{world.folder}/incoming/{FIRST}",
        f"./incoming/{FIRST}",
        f"../{world.folder.name}/incoming/{FIRST}",
    ):
        assert main(["files", str(world.config_file), wrong]) == 2
        assert capsys.readouterr().err.strip().endswith(f"PATTERN {wrong}: {expected}. Do you mean {FIRST}?")
    assert main(["files", str(world.config_file), "/nowhere/x"]) == 2
    assert capsys.readouterr().err.strip().endswith(f"PATTERN /nowhere/x: {expected}")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (f"incoming/{FIRST}", FIRST),
        ("incoming/date=2200/", "date=2200/"),
        ("incoming/date=2200", "date=2200/"),
        ("date=2200", "date=2200/"),
    ],
)
def test_a_path_that_is_nowhere_says_which_is_meant(
    world: OperatorWorld, given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason(world, capsys, given) == f"no source has it, and nothing knows it. Do you mean {meant}?"


@pytest.mark.parametrize("given", ["incoming/x", "date=22", f"elsewhere/{FIRST}", "s3://elsewhere/date=2200"])
def test_nothing_is_meant_where_there_is_nothing(
    world: OperatorWorld, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason(world, capsys, given) == "no source has it, and nothing knows it"


def test_an_audit_shows_times_as_people_read_them(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    file: Any = world.land("date=2020/late.ndjson.gz", "late")
    capsys.readouterr()
    assert main(["audit", str(world.config_file)]) == 1
    size, time = file.stat().st_size, shown(file.stat().st_mtime)
    assert f" missing: date=2020/late.ndjson.gz (size {size}, modified {time})\n" in capsys.readouterr().out


def test_a_bucket_may_have_what_a_folder_cannot() -> None:
    for odd in ("/a", "a//b", "./a"):
        assert (may_have("s3://bucket/x/", odd), may_have("file:///x/", odd)) == (True, False)
    assert may_have("file:///x/", "a/b/")


@pytest.mark.parametrize(
    ("given", "paths", "shown_paths", "is_cut"),
    [
        (["a/", "nowhere"], ["a/1", "a/2"], ["a/1"], True),
        (["a/", "nowhere"], ["a/1"], ["a/1"], False),
        (["a/1", "a/2"], ["a/1", "a/2"], ["a/1", "a/2"], False),
        ([], ["a/1", "a/2"], ["a/1"], True),
    ],
)
def test_what_a_limit_cuts(given: list[str], paths: list[str], shown_paths: list[str], *, is_cut: bool) -> None:
    named = Named(given)
    found = named.limited([Life("s", path, "committed") for path in paths], lambda life: True, 1)
    assert ([life.path for life in found], named.is_cut) == (shown_paths, is_cut)
