"""`blizzard files`: the life of each file, or why it is not in."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from blizzard.audit import rows_of_lives
from blizzard.audit.lives import literal_prefix
from blizzard.cli import main
from spark_job.main import EXIT_STOPPED
from tests.unit.interruptions import StopsAfter
from tests.unit.operator_world import OperatorWorld, files_below

GOOD, DIRTY, TORN = "a/1.ndjson.gz", "a/2.ndjson.gz", "a/torn.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """Three commits, the last of which an event announced; one file waits."""
    made = OperatorWorld(tmp_path)
    made.land(GOOD, "x", "y")
    made.run()
    made.land(DIRTY, "x", None, None)
    made.land_bytes(TORN, b"\x1f\x8b")
    made.run()
    announce(made, "b/by event.ndjson.gz", "x")
    made.run(sweep=False)
    announce(made, "c/waits.ndjson.gz", "x")
    return made


def announce(world: OperatorWorld, path: str, *ids: str) -> None:
    world.land(path, *ids)
    world.announce(path)


def files(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0
) -> dict[str, dict[str, Any]]:
    assert main(["files", str(world.config_file), "--json", *options]) == code
    return {life["path"]: life for life in json.loads(capsys.readouterr().out)}


def test_the_life_of_a_committed_file(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    life = files(world, capsys, GOOD)[GOOD]
    info = world.source.files.head(GOOD)
    assert info is not None
    assert (life["source"], life["state"], life["reason"], life["listed"]) == ("orders:shop", "committed", None, True)
    assert (life["etag"], life["etag_committed"], life["size"]) == (info.etag, info.etag, info.size)
    assert (life["announced_by"], life["announced_ts"]) == ("sweep", pytest.approx(info.modified_ts, abs=0.001))
    assert (life["sequence"], life["table_version"], life["rows"], life["rejected"]) == (0, 0, 2, 0)
    assert life["committed_ts"] == pytest.approx(life["announced_ts"] + life["latency_secs"])


def test_other_commits_do_not_confuse_the_versions(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        world.table().delete("id = 'nobody'")
    world.table().optimize.compact()
    world.table().delete("id = 'y'")
    world.run()
    found = files(world, capsys)
    versions = {path: life["table_version"] for path, life in found.items()}
    assert versions[DIRTY] == 1
    log = (world.folder / "lake" / "_delta_log" / f"{versions['c/waits.ndjson.gz']:020d}.json").read_text()
    assert '"version":3' in log.replace(" ", "")
    assert found["c/waits.ndjson.gz"]["sequence"] == 3


def test_why_files_are_not_in(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.land_bytes("a/readme.txt", b"hello")
    world.land("d/new.ndjson.gz", "x")
    found = files(world, capsys)
    assert {path: life["state"] for path, life in found.items()} == {
        GOOD: "committed",
        DIRTY: "committed",
        "a/readme.txt": "skipped",
        TORN: "dead_lettered",
        "b/by event.ndjson.gz": "committed",
        "c/waits.ndjson.gz": "pending",
        "d/new.ndjson.gz": "pending",
    }
    assert (found[DIRTY]["rows"], found[DIRTY]["rejected"]) == (1, 2)
    assert "truncated" in found[TORN]["reason"]
    assert "pattern" in found["a/readme.txt"]["reason"]
    assert found["b/by event.ndjson.gz"]["announced_by"] == "event"
    assert (found["c/waits.ndjson.gz"]["announced_by"], found["d/new.ndjson.gz"]["announced_by"]) == ("event", None)
    assert "the next run reads it" in found["c/waits.ndjson.gz"]["reason"]
    assert "the next sweep does" in found["d/new.ndjson.gz"]["reason"]


def test_a_missing_file_says_what_brings_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}})
    world.land("date=2019/old.ndjson.gz", "x")
    world.land("date=2200/1.ndjson.gz", "x")
    world.run()
    late = world.land("date=2020/late.ndjson.gz", "x")
    world.settings["settle_delay_secs"] = 0
    found = files(world, capsys)
    assert (found["date=2020/late.ndjson.gz"]["state"], late.exists()) == ("missing", True)
    assert "blizzard audit --repair" in found["date=2020/late.ndjson.gz"]["reason"]
    assert found["date=2019/old.ndjson.gz"]["state"] == "skipped"
    assert "lookback" in found["date=2019/old.ndjson.gz"]["reason"]


def test_files_that_are_gone_and_announcements_without_a_file(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (GOOD, "c/waits.ndjson.gz"):
        (world.folder / "incoming" / path).unlink()
    found = files(world, capsys, GOOD, "c/*")
    assert (found[GOOD]["state"], found[GOOD]["listed"]) == ("committed", False)
    assert found[GOOD]["reason"] == "the source no longer has it"
    assert "does not have it" in found["c/waits.ndjson.gz"]["reason"]


def test_overwritten_files(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.land(GOOD, "other")
    life = files(world, capsys, GOOD)[GOOD]
    assert (life["state"], "overwritten" in life["reason"]) == ("committed", True)
    assert life["etag"] != life["etag_committed"]
    world.settings["on_overwrite"] = "dead_letter"
    assert files(world, capsys, GOOD)[GOOD]["state"] == "pending"
    world.run()
    assert files(world, capsys, GOOD)[GOOD]["state"] == "dead_lettered"


def test_patterns_uris_states_times_and_limits(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert [*files(world, capsys, "a/*", "b/**")] == [GOOD, DIRTY, TORN, "b/by event.ndjson.gz"]
    assert [*files(world, capsys, f"{world.source.files.uri}{GOOD}")] == [GOOD]
    assert [*files(world, capsys, "--state", "pending", "--state", "dead_lettered")] == [TORN, "c/waits.ndjson.gz"]
    assert [*files(world, capsys, "--limit", "2")] == [GOOD, DIRTY]
    assert [*files(world, capsys, "--since", "1h", "--source", "shop", "a/1*")] == [GOOD]
    assert files(world, capsys, "--since", "2200-01-01") == {}


def test_a_path_that_is_nowhere(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    found = files(world, capsys, GOOD, "a/nowhere.gz", code=1)
    assert (found[GOOD]["state"], found["a/nowhere.gz"]["state"]) == ("committed", "absent")
    assert files(world, capsys, "nowhere/*") == {}


def test_what_a_local_source_does_not_list_says_why(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    incoming = world.folder / "incoming"
    (incoming / "a" / "link.ndjson.gz").symlink_to(incoming / GOOD)
    (incoming / "linked").symlink_to(incoming / "a")
    (incoming / "a" / os.fsdecode(b"bad-\xff.gz")).write_bytes(b"")
    uri = f"{world.source.files.uri}a/link.ndjson.gz"
    left_out = dict.fromkeys(("a/link.ndjson.gz", uri, "linked"), "symbolic links are not followed")
    left_out["a/bad-\udcff.gz"] = "the name is not valid UTF-8"
    found = files(world, capsys, *left_out, "a/nowhere.gz", code=1)
    assert {path: (life["state"], life["reason"]) for path, life in found.items()} == {
        **{path: ("absent", f"source orders:shop does not list it: {why}") for path, why in left_out.items()},
        "a/nowhere.gz": ("absent", "no source has it, and nothing knows it"),
    }


ODD = ["a[1].ndjson.gz", "b{x}.ndjson.gz", "c?.ndjson.gz", "d*.ndjson.gz", "e{x.ndjson.gz", "f\\g.ndjson.gz", "h[x.gz"]


def test_a_text_is_the_path_that_it_names_whatever_it_means_as_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    for name in (*ODD, "a1.ndjson.gz", "bx.ndjson.gz", "[d]/x.ndjson.gz"):
        world.land(name, "x")
    world.run()
    for name in ODD:
        assert name in files(world, capsys, name)
        assert name in files(world, capsys, f"{world.source.files.uri}{name}", "--limit", "1")
    assert [*files(world, capsys, "a[1].ndjson.gz", "[d]/")] == ["[d]/x.ndjson.gz", "a1.ndjson.gz", "a[1].ndjson.gz"]
    assert [*files(world, capsys, "e{x.ndjson.gz", "--state", "absent")] == []
    (world.folder / "incoming" / "e{x.ndjson.gz").unlink()
    assert files(world, capsys, "e{x.ndjson.gz")["e{x.ndjson.gz"]["state"] == "committed"
    assert main(["files", str(world.config_file), "k{x.ndjson.gz"]) == 2
    assert "PATTERN k{x.ndjson.gz: `{` and `}` do not pair up" in capsys.readouterr().err


def test_folders_may_be_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    found = [f"date=2026-11-2{day}/x.ndjson.gz" for day in range(3)]
    for path in found:
        world.land(path, "x")
    for place in ("", world.source.files.uri):
        assert [*files(world, capsys, f"{place}date=2026-11-*/")] == found
        assert [*files(world, capsys, f"{place}date=2026-11-2[01]/")] == found[:2]
        assert files(world, capsys, f"{place}date=2027-*/") == {}
    world.settings["uri"] = "incoming/[x]"
    world.land("[x]/1.ndjson.gz", "x")
    for uri in (world.source.files.uri, world.source.files.uri.rstrip("/")):
        assert [*files(world, capsys, uri)] == ["1.ndjson.gz"]


@pytest.mark.parametrize("wrong", ["a[b", "a[b/", "a//*", "*/../"])
def test_what_is_no_pattern_is_wrong_below_whatever_place(
    world: OperatorWorld, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("", world.source.files.uri, "s3://elsewhere/"):
        assert main(["files", str(world.config_file), f"{place}{wrong}"]) == 2
        assert f"PATTERN {place}{wrong}: " in capsys.readouterr().err
    assert files(world, capsys, "s3://elsewhere/*", "s3://elsewhere/*/") == {}


@pytest.mark.parametrize("options", [("--state", "absent"), ("--state", "committed"), ("--since", "1h")])
def test_a_path_that_is_nowhere_is_told_whatever_else_was_asked_for(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str], options: tuple[str, str]
) -> None:
    found = files(world, capsys, "nope.ndjson.gz", "nope/", *options, code=1)
    assert [life["state"] for life in found.values()] == ["absent", "absent"]


def test_a_path_that_there_is_is_not_nowhere_because_of_what_else_was_asked_for(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files(world, capsys, GOOD, "a/", "--state", "absent") == {}
    assert files(world, capsys, GOOD, "--since", "2200-01-01") == {}


def test_what_is_named_is_answered_whatever_the_limit(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    named = [GOOD, TORN, "c/waits.ndjson.gz"]
    assert [*files(world, capsys, "--limit", "1", *named)] == named
    assert [*files(world, capsys, "--limit", "1", "**", f"{world.source.files.uri}{TORN}")] == [GOOD, TORN]
    assert [*files(world, capsys, "--limit", "1", "a/", "c/")] == [GOOD]
    found = files(world, capsys, "--limit", "1", "a/", "nowhere/", "zz", code=1)
    assert [(path, life["state"]) for path, life in found.items()] == [
        (GOOD, "committed"),
        ("nowhere/", "absent"),
        ("zz", "absent"),
    ]


def test_files_that_are_only_announced_are_among_the_others(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(world, "a/gone.ndjson.gz", "x")
    (world.folder / "incoming" / "a/gone.ndjson.gz").unlink()
    found = files(world, capsys)
    assert [*found] == [GOOD, DIRTY, "a/gone.ndjson.gz", TORN, "b/by event.ndjson.gz", "c/waits.ndjson.gz"]
    assert found["a/gone.ndjson.gz"]["reason"].startswith("it is announced, and the source does not have it")


def test_of_a_moved_table_nothing_waits_for_a_run(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    new = str(world.folder / "new")
    assert main(["rebuild", str(world.config_file), "--to", new, "--swap", "--yes"]) == 0
    announce(world, "d/gone.ndjson.gz", "x")
    (world.folder / "incoming" / "d/gone.ndjson.gz").unlink()
    announce(world, "d/there.ndjson.gz", "x")
    capsys.readouterr()
    for life in files(world, capsys, "d/gone.ndjson.gz", "d/there.ndjson.gz").values():
        assert (life["state"], life["announced_by"]) == ("pending", "event")
        assert "/new has taken the place of this one, which gets no more rows" in life["reason"]


def test_the_source_itself_and_its_folders(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    every, uri = files(world, capsys), world.source.files.uri
    assert len(every) == 5
    assert [*files(world, capsys, uri)] == [*files(world, capsys, uri.rstrip("/"))] == [*every]
    assert [*files(world, capsys, "a/")] == [*files(world, capsys, f"{uri}a/")] == [GOOD, DIRTY, TORN]
    assert files(world, capsys, "nowhere/", code=1)["nowhere/"]["state"] == "absent"
    assert files(world, capsys, "s3://elsewhere/", code=1)["s3://elsewhere/"]["state"] == "absent"


def test_an_empty_source_is_no_absent_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    assert files(world, capsys, world.source.files.uri) == {}


# -- rows that somebody has deleted


def test_rows_that_are_no_longer_in_the_table(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert [files(world, capsys)[path]["rows_found"] for path in (GOOD, DIRTY, TORN)] == [2, 1, None]
    world.table().delete("id = 'y'")
    life = files(world, capsys, GOOD)[GOOD]
    assert (life["state"], life["rows"], life["rows_found"]) == ("committed", 2, 1)
    assert life["reason"].startswith("1 of its 2 rows are no longer in the table: somebody has deleted them")
    world.table().delete()
    (world.folder / "incoming" / GOOD).unlink()
    life = files(world, capsys, GOOD)[GOOD]
    assert life["reason"].startswith("the source no longer has it; 2 of its 2 rows are no longer in the table")
    assert main(["files", str(world.config_file), GOOD]) == 0
    assert " rows           2, and 0 records refused; 0 in the table\n" in capsys.readouterr().out


def test_rows_of_a_file_that_is_read_in_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path, {"pattern": "**", "checkpoint": {"interval_bytes": 1_000_000}})
    world.land_bytes("a.ndjson", 250 * (b'{"id": "%s"}\n' % (b"x" * 8_000)))
    stop = StopsAfter(1)
    assert world.run_until(stop.event, stop.log) == EXIT_STOPPED
    rows = world.table().to_pyarrow_table().num_rows
    life = files(world, capsys)["a.ndjson"]
    assert (life["state"], life["rows"], life["rows_found"]) == ("pending", rows, rows)
    assert "no longer in the table" not in life["reason"]
    world.table().delete()
    life = files(world, capsys)["a.ndjson"]
    assert life["rows_found"] == 0
    assert f"; {rows} of its {rows} rows are no longer in the table" in life["reason"]


def test_rows_that_are_there_twice(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(world.table(), world.table().to_pyarrow_table(), mode="append")
    life = files(world, capsys, GOOD)[GOOD]
    assert (life["rows_found"], "the table has 4 rows of it" in life["reason"]) == (4, True)


@pytest.mark.parametrize("damaged", [False, True])
def test_of_a_lost_data_file_the_rows_are_gone(
    world: OperatorWorld, damaged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (data_file,) = (world.lake / each["path"] for each in added_by(world, version=0))
    if damaged:
        data_file.write_bytes(b"no Parquet")
    else:
        data_file.unlink()
    world.table().delete(f"_source.file = '{DIRTY}'")
    found = files(world, capsys)
    life = found[GOOD]
    assert (life["state"], life["rows"], life["rows_found"]) == ("committed", 2, 0)
    lost = "a data file that may have them is lost; `blizzard audit` names it"
    assert life["reason"] == f"2 of its 2 rows are no longer in the table: {lost}"
    assert "somebody has deleted them" in found[DIRTY]["reason"]


def added_by(world: OperatorWorld, *, version: int) -> list[dict[str, Any]]:
    log = (world.lake / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, log) if "add" in action]


@pytest.mark.parametrize("limit", ["MAX_DATA_FILES", "MAX_ACTIONS"])
def test_rows_of_many_data_files_are_not_looked_at(
    world: OperatorWorld, limit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.table().create_checkpoint()
    monkeypatch.setattr(rows_of_lives, limit, 0)
    world.table().delete("id = 'y'")
    life = files(world, capsys, GOOD)[GOOD]
    assert (life["rows_found"], life["reason"]) == (None, None)


def test_a_lost_ledger_and_lost_receipts(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(world.state / "receipts")
    found = files(world, capsys)
    assert (found[GOOD]["state"], found[GOOD]["rows"], found[GOOD]["table_version"]) == ("committed", 2, 0)
    assert found[GOOD]["announced_by"] is None


def test_text_for_people_and_nothing_is_written(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.land("b/a\nb.ndjson.gz", "x")
    before = [*files_below(world.folder)]
    assert main(["files", str(world.config_file)]) == 0
    assert [*files_below(world.folder)] == before
    said = capsys.readouterr().out
    assert "orders:shop: b/a\\nb.ndjson.gz\n state          pending\n" in said
    assert " rows           1, and 2 records refused\n" in said
    assert " announced by   an event, of " in said


@pytest.mark.parametrize(
    ("globs", "prefix"),
    [([], ""), (["a/b*"], "a/b"), (["a/b1", "a/b2"], "a/b"), (["a", "ab"], "a"), (["x", "y"], ""), (["a{b,c}"], "a")],
)
def test_what_all_paths_begin_with(globs: list[str], prefix: str) -> None:
    assert literal_prefix(globs) == prefix


def test_wrong_input(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files", str(world.config_file), "[a"]) == 2
    assert "PATTERN [a" in capsys.readouterr().err
    for nothing in ("", " "):
        assert main(["files", str(world.config_file), nothing]) == 2
        assert "PATTERN: expected a path or a pattern, found nothing" in capsys.readouterr().err
