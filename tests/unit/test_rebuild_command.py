"""`blizzard rebuild` as somebody types it: questions, answers, exit codes, and the configuration that it changes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.config.change import CannotChange, replace_file, with_table_uri
from blizzard.config.load import load_config
from tests.unit.rebuild_lake import CONFIG, RebuildLake

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RebuildLake:
    monkeypatch.chdir(tmp_path)
    made = RebuildLake(tmp_path)
    made.land("a.ndjson")
    assert made.run() == 0
    return made


def rebuild(*words: str) -> int:
    return main(["rebuild", "pipelines.yaml", *words])


def in_json(capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = rebuild("--json", *words)
    return code, json.loads(capsys.readouterr().out)


def test_a_state_that_is_well_needs_no_answer(lake: RebuildLake, capsys: Capture) -> None:
    assert rebuild() == 0
    assert capsys.readouterr().out == "orders:shop: nothing is wrong; 1 files, sequence 0\n"
    code, document = in_json(capsys)
    assert (code, [source["verdict"] for source in document["sources"]]) == (0, ["well"])


def test_without_a_terminal_it_says_what_it_would_do_and_ends_with_2(lake: RebuildLake, capsys: Capture) -> None:
    lake.copy_rows()
    assert rebuild() == 2
    shown = capsys.readouterr()
    assert "orders:shop: the table has rows of this source, but no Txn" in shown.out
    assert "commit the Txn and the checkpoint, without rows" in shown.out
    assert "nothing was written: say --yes" in shown.err
    code, document = in_json(capsys)
    assert (code, document["sources"][0]["verdict"]) == (2, "planned")
    assert rebuild("--yes") == 0
    assert "orders:shop: rebuilt, 1 files, sequence 1; well" in capsys.readouterr().out
    assert lake.run() == 0
    lake.check()


def test_a_table_that_cannot_be_rebuilt_is_an_error_with_its_reason(lake: RebuildLake, capsys: Capture) -> None:
    assert lake.rebuild_table() == 0
    code, document = in_json(capsys, "--yes")
    (found,) = document["sources"]
    assert (code, found["verdict"]) == (1, "refused")
    assert "has taken the place of this table" in found["error"]


def test_a_swap_changes_the_table_in_the_configuration_and_nothing_else(lake: RebuildLake, capsys: Capture) -> None:
    assert rebuild("--to", "new") == 0
    assert lake.file.read_text() == CONFIG
    assert rebuild("--to", "new", "--swap") == 2
    assert "1. commit to the old table, without rows" in capsys.readouterr().out
    assert lake.file.read_text() == CONFIG
    code, document = in_json(capsys, "--to", "new", "--swap", "--yes")
    assert (code, document["swapped"], document["config_changed"]) == (0, True, True)
    assert document["sources"][0]["moved"]
    assert lake.file.read_text() == CONFIG.replace("lake ", f'"{lake.uri("new")}" ')
    lake.land("b.ndjson")
    assert lake.run() == 0
    lake.check("new")
    assert in_json(capsys, "--to", "new", "--swap", "--yes")[0] == 0


def test_a_table_that_comes_from_a_variable_is_left_to_the_operator(
    lake: RebuildLake, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", "lake")
    lake.file.write_text(text := CONFIG.replace("lake ", "${LAKE} "))
    assert rebuild("--to", "new", "--swap", "--yes") == 1
    shown = capsys.readouterr().out
    assert f'Change it by hand, or no job of pipeline orders runs: table_uri: "{lake.uri("new")}"' in shown
    assert lake.file.read_text() == text


def test_the_status_of_a_moved_table_says_so(lake: RebuildLake, capsys: Capture) -> None:
    assert lake.rebuild_table() == 0
    capsys.readouterr()
    assert main(["status", "--json", "pipelines.yaml"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["moved_to"] == lake.uri("new")
    assert "publish and deploy" in found["problem"]
    main(["doctor", "pipelines.yaml"])
    assert f"table {lake.uri('new')} has taken the place of this one" in capsys.readouterr().out
    main(["audit", "--json", "pipelines.yaml"])
    (audit,) = json.loads(capsys.readouterr().out)
    assert [notice["kind"] for notice in audit["notices"]] == ["table_moved"]


def test_of_a_moved_table_nothing_is_planned_and_files_wait_for_ever(lake: RebuildLake, capsys: Capture) -> None:
    assert lake.rebuild_table() == 0
    lake.land("day=1/new.ndjson")
    capsys.readouterr()
    assert main(["plan", "--json", "pipelines.yaml"]) == 1
    (plan,) = json.loads(capsys.readouterr().out)
    (source,) = plan["sources"]
    assert (plan["runs"], source["files"]) == (0, 1)
    assert f"table {lake.uri('new')} has taken the place of this one" in source["problem"]
    assert main(["plan", "pipelines.yaml"]) == 1
    shown = capsys.readouterr().out
    assert ("would stop  table" in shown, "takes" in shown, "nothing to do" in shown) == (True, False, False)
    assert main(["files", "--json", "pipelines.yaml", "day=1/new.ndjson"]) == 0
    (life,) = json.loads(capsys.readouterr().out)
    assert (life["state"], life["reason"]) == ("pending", source["problem"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--swap"], "--swap: expected --to TABLE with it"),
        (["--without-gone"], "--without-gone: expected --to TABLE with it"),
        (["--to", "new", "--without-gone"], "--without-gone: expected --swap with it"),
        (["--without-others"], "--without-others: expected --to TABLE with it"),
        (["--to", "new", "--with-deleted"], "--with-deleted: expected --swap with it"),
        (["--to", "new", "--source", "shop"], "--source: a new table gets all sources"),
        (["--to", "new", "--pipeline", "nobody"], "--pipeline nobody: expected one of orders"),
        (["--to", "incoming/new"], "incoming"),
        (["--to", "lake/new"], "VACUUM of the outer table would delete the inner table's files"),
        (["--to", "."], "VACUUM of the outer table would delete the inner table's files"),
        (["--to", "s3://bucket"], "the root of a bucket"),
        (["--source", "nothing"], "--source nothing: expected one of orders:shop"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    lake: RebuildLake, capsys: Capture, words: list[str], problem: str
) -> None:
    assert rebuild(*words) == 2
    assert problem in capsys.readouterr().err


def test_a_place_with_rows_of_something_else_is_wrong_input(lake: RebuildLake, capsys: Capture) -> None:
    shutil.copytree(lake.folder / "lake", lake.folder / "other")
    lake.file.write_text(CONFIG.replace("shop:", "store:"))
    assert rebuild("--to", "other") == 2
    assert "holds rows of something else" in capsys.readouterr().err


def test_a_source_that_is_new_has_no_sequence(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RebuildLake(tmp_path)
    code, document = in_json(capsys)
    assert (code, document["sources"][0]["verdict"], document["sources"][0]["sequence"]) == (0, "well", None)
    assert rebuild() == 0
    assert capsys.readouterr().out == "orders:shop: nothing is wrong; 0 files, no commit yet\n"


def test_a_source_whose_folder_does_not_exist_is_not_well(lake: RebuildLake, capsys: Capture) -> None:
    shutil.rmtree(lake.folder / "incoming")
    assert rebuild() == 1
    assert "there is no such folder. Create it, or correct the URI" in capsys.readouterr().out
    code, document = in_json(capsys)
    assert (code, [source["verdict"] for source in document["sources"]]) == (1, ["refused"])
    lake.copy_rows()
    assert in_json(capsys, "--yes")[1]["sources"][0]["verdict"] == "rebuilt"


def test_a_new_table_that_is_filled_says_what_comes_next(lake: RebuildLake, capsys: Capture) -> None:
    assert rebuild("--to", "new") == 0
    assert "start the same command with --swap" in capsys.readouterr().out
    (note,) = in_json(capsys, "--to", "new")[1]["notes"]
    assert "--swap" in note


def test_an_option_that_was_given_is_not_asked_for(lake: RebuildLake, capsys: Capture) -> None:
    (lake.folder / "incoming/a.ndjson").unlink()
    lake.land("b.ndjson")
    assert rebuild("--to", "new", "--swap", "--yes") == 1
    assert "say --without-gone" in capsys.readouterr().out
    assert rebuild("--to", "new", "--swap", "--without-gone") == 2
    shown = capsys.readouterr().out
    assert "1 files are in the old table, and the source does not have them any more, which --without-gone" in shown
    assert "say --without-gone" not in shown


# The change of the configuration


def test_only_the_wanted_value_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    one, other = (f"{{s: {{uri: /tmp/in{number}, schema: id STRING}}}}" for number in (1, 2))
    file.write_text(
        f"# é\r\npipelines: {{a: {{table_uri: 'x', sources: {one}}}, #\r\n b: {{table_uri: x, sources: {other}}}}}\r\n",
        newline="",
    )
    changed = with_table_uri(file, {}, "b", "s3://lake/new")
    assert changed == file.read_bytes().decode().replace("table_uri: x", 'table_uri: "s3://lake/new"')


@pytest.mark.parametrize(
    "text",
    [
        (
            "pipelines: {a: {table_uri: &t /tmp/x, sources: {s: {uri: /tmp/1, schema: id STRING}}},\n"
            " b: {table_uri: *t, sources: {s: {uri: /tmp/2, schema: id STRING}}}}"
        ),
        "pipelines: {a: {table_uri: '${T}', sources: {s: {uri: /tmp/in, schema: id STRING}}}}",
    ],
    ids=["alias", "variable"],
)
def test_a_value_that_cannot_be_changed_alone_is_not_changed(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(CannotChange):
        with_table_uri(file, {"T": "/tmp/x"}, "a", "s3://lake/new")


def test_a_file_keeps_its_rights_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    replace_file(tmp_path / "link", "new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "real"]


def test_the_changed_configuration_is_the_old_one_with_another_table(tmp_path: Path) -> None:
    lake = RebuildLake(tmp_path)
    replace_file(lake.file, with_table_uri(lake.file, {}, "orders", "s3://lake/new"))
    assert load_config(lake.file, {}).pipelines["orders"].table_uri == "s3://lake/new"
