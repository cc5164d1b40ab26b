"""`blizzard audit`: exit codes, JSON, what it writes and what it reads again."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from blizzard.audit import sample
from blizzard.audit.sample import Sample, read_again
from blizzard.cli import main
from blizzard.manifest.segments import Entry
from blizzard.storage.local import LocalStore
from tests.unit.operator_world import OperatorWorld, files_below


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    made = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}})
    made.land("date=2200/1.ndjson.gz", "a", "b", None)
    made.land("date=2200/2.ndjson.gz", "c")
    made.run()
    return made


def audit(world: OperatorWorld, *options: str) -> int:
    return main(["audit", str(world.config_file), *options])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (report,) = json.loads(capsys.readouterr().out)
    return dict(report)


def test_a_good_answer(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(world, "--json") == 0
    report = answer(capsys)
    assert report["objects"] == sum(
        report[each] for each in ("committed", "dead_lettered", "skipped", "pending", "missing")
    )
    assert (report["verdict"], report["committed"], report["table_version"]) == ("good", 2, 0)
    assert audit(world) == 0
    said = capsys.readouterr().out
    assert " rows           3 found, 3 by the receipts\n" in said
    assert said.endswith(" verdict        good\n")


def test_a_bad_answer_names_what_is_wrong_and_can_be_repaired(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.land("date=2020/late\n.ndjson.gz", "late")
    assert audit(world, "--repair") == 1
    said = capsys.readouterr().out
    assert " missing: date=2020/late\\n.ndjson.gz (size " in said
    assert " repaired: 1 files were announced again" in said
    assert audit(world, "--repair") == 0
    assert " repaired: nothing was to announce\n" in capsys.readouterr().out
    world.run(sweep=False)
    capsys.readouterr()
    assert audit(world, "--json") == 0
    assert answer(capsys)["committed"] == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--pipeline", "nobody"], "--pipeline nobody: expected one of orders"),
        (["--source", "nobody"], "--source nobody: expected one of orders:shop"),
        (["--sample", "-1"], "--sample"),
    ],
)
def test_wrong_input(world: OperatorWorld, options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(world, *options) == 2
    assert text in capsys.readouterr().err


def test_a_source_that_cannot_be_listed_is_a_failure(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.settings["uri"] = "nowhere"
    assert audit(world) == 1
    assert "there is no such folder" in capsys.readouterr().out


def test_one_source_and_one_folder(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(world, "--json", "--pipeline", "orders", "--source", "shop", "--partition", "date=2200/") == 0
    assert answer(capsys)["objects"] == 2
    assert audit(world, "--json", "--source", "orders:shop", "--partition", "date=2201") == 2


def test_a_folder_of_which_nothing_is_known_is_wrong_input(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(partition: str) -> tuple[str, list[str]] | str:
        code = audit(world, "--json", "--partition", partition)
        if code == 2:
            return str(json.loads(capsys.readouterr().out)["error"])
        report = answer(capsys)
        return report["verdict"], [notice["kind"] for notice in report["notices"]]

    def nothing(folder: str) -> str:
        return (
            f"the source has nothing in {folder}/, and neither state nor table has files of it. Expected a folder such "
            "as an audit of the whole source names; correct --partition."
        )

    for folder in ("dat=2200", "date=220"):
        assert nothing(folder) in found(folder)
    assert found("date=2200") == ("good", [])
    (world.folder / "incoming" / "date=2201").mkdir()
    world.land_bytes("other/readme.txt", b"")
    world.land("empty/1.ndjson.gz").unlink()
    for folder in ("date=2201", "empty"):
        assert nothing(folder) in found(folder)
    assert found("other") == ("good", [])
    world.land("empty/1.ndjson.gz")
    world.run()
    for path in ("date=2200/1.ndjson.gz", "date=2200/2.ndjson.gz", "empty/1.ndjson.gz"):
        (world.folder / "incoming" / path).unlink()
    assert [found(folder) for folder in ("date=2200", "empty")] == [("good", [])] * 2
    world.manifest.append([Entry("announced/1.ndjson.gz", 9, "e", 1.0)], writer_id="w", now_ts=1.0)
    assert found("announced") == ("notes", ["announced_absent"])


def test_a_folder_that_only_another_source_has_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "others").mkdir()
    beside = {"uri": "others", "pattern": "**", "format": "text", "settle_delay_secs": 0}
    world = OperatorWorld(tmp_path, pipeline={"table_uri": "lake"}, beside={"beside": beside})
    world.land("a/1.ndjson.gz", "x")
    assert audit(world, "--json", "--partition", "a") == 0
    shop, other = json.loads(capsys.readouterr().out)
    assert [[notice["kind"] for notice in report["notices"]] for report in (shop, other)] == [[], ["nothing_there"]]
    assert audit(world, "--json", "--partition", "b") == 2


def test_a_source_without_any_of_its_files_is_worth_a_look(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one whose `uri` was changed to an empty place."""
    (tmp := world.folder / "elsewhere").mkdir()
    world.settings["uri"] = str(tmp)
    assert audit(world, "--json") == 0
    report = answer(capsys)
    assert (report["objects"], report["gone"], report["verdict"]) == (0, 2, "notes")
    assert [notice["kind"] for notice in report["notices"]] == ["source_empty"]
    (tmp / "new.ndjson.gz").write_bytes(b"")
    assert audit(world, "--json") == 0
    assert answer(capsys)["verdict"] == "good"


def test_without_repair_nothing_is_written(world: OperatorWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to the source, and not to the table."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a command that only reads has written")

    before = [*files_below(world.folder)]
    for name in ("put", "create", "writer", "delete"):
        monkeypatch.setattr(LocalStore, name, refuse)
    (world.folder / "incoming" / "date=2020").mkdir()
    (world.folder / "incoming" / "date=2020" / "late.ndjson.gz").write_bytes(b"late")
    assert world.audit().missing == 1
    (world.folder / "incoming" / "date=2020" / "late.ndjson.gz").unlink()
    assert [*files_below(world.folder)] == before


# -- the sample


def test_a_sample_of_a_good_table(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    before = [*files_below(world.folder)]
    assert audit(world, "--json", "--sample", "10") == 0
    report = answer(capsys)["sample"]
    assert (report["files"], report["rows"], report["differ"], report["problem"]) == (2, 3, [], None)
    assert [*files_below(world.folder)] == before


def test_a_value_that_was_changed_by_hand(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.table().update(updates={"amount": "7"}, predicate="id = 'b'")
    world.table().delete("id = 'c'")
    assert audit(world, "--json", "--sample", "10") == 1
    first, second = answer(capsys)["sample"]["differ"]
    assert first["path"] == "date=2200/1.ndjson.gz"
    assert first["values"] == [{"row": 1, "column": "amount", "file": "1", "table": "7"}]
    assert (second["path"], second["rows_missing"], second["values"]) == ("date=2200/2.ndjson.gz", 1, [])


def test_values_of_many_files_in_one_data_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts that deltalake's UPDATE writes have another type of Arrow, which its filters cannot compare."""
    world = OperatorWorld(tmp_path)
    for name in ("1", "2", "3"):
        world.land(f"{name}.ndjson.gz", f"a{name}", f"b{name}")
    world.run()
    world.table().update(updates={"amount": "7"}, predicate="id = 'b2'")
    assert audit(world, "--json", "--sample", "10") == 1
    (only,) = answer(capsys)["sample"]["differ"]
    assert (only["path"], only["values_different"]) == ("2.ndjson.gz", 1)


@pytest.mark.parametrize("partition", ["", "/", "../x", "date=2200/../.."])
def test_a_partition_that_is_none(world: OperatorWorld, partition: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(world, "--partition", partition) == 2
    assert "expected a folder of" in capsys.readouterr().err


def test_a_partition_whose_files_are_gone_has_its_rows(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.folder / "incoming" / "date=2200" / "1.ndjson.gz").unlink()
    (world.folder / "incoming" / "date=2200" / "2.ndjson.gz").unlink()
    audit(world, "--json", "--partition", "date=2200")
    assert answer(capsys)["rows"]["found"] == 3


def test_a_row_that_its_file_does_not_have(world: OperatorWorld, tmp_path: Path) -> None:
    found = world.source.files.head("date=2200/2.ndjson.gz")
    assert found is not None
    world.land("date=2200/2.ndjson.gz")  # so that reading again brings nothing
    again = world.source.files.head("date=2200/2.ndjson.gz")
    assert again is not None
    files = [(found.key, found.size, found.etag, found.modified_ts, 1)]
    (tmp_path / "again").mkdir()
    report = read_again(Sample(world.source, 0, files, "s"), world.config(), tmp_path / "again")
    assert [(each["path"], each["rows_added"]) for each in report.differ] == [(found.key, 1)]
    assert sample.is_bad(report, {})


def test_files_that_only_spark_can_read_are_not_compared(world: OperatorWorld, tmp_path: Path) -> None:
    world.land_bytes("date=2200/3.ndjson.gz", gzip.compress(b'{"id": "a"}\n{"id": 1}\nxx\n'))
    info = world.source.files.head("date=2200/3.ndjson.gz")
    assert info is not None
    files = [(info.key, info.size, info.etag, info.modified_ts, 1)]
    (tmp_path / "again").mkdir()
    report = read_again(Sample(world.source, 0, files, "s"), world.config(), tmp_path / "again")
    assert "Spark is needed" in (report.problem or "")
    assert not sample.is_bad(report, {})
