"""What an audit finds is put right by what the runbook says of it, word by word."""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, Sweep
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from tests.unit.rebuild_lake import RebuildLake, become_table_of
from tests.unit.test_runbook_commands import Terminal, own_text

Plant = Callable[[RebuildLake], None]
PLANTED: dict[str, Plant] = {}
"""By the name under which an audit has to find it."""
REPLACED: dict[str, Callable[[RebuildLake, str], None]] = {}
"""Those of one file, which `blizzard replace` puts right."""
FILE, REFUSED, TORN = "day=1/a.ndjson", "day=1/bad.ndjson", "day=1/torn.ndjson.gz"
"""A whole file, one with a refused record, and one that cannot be read."""
STATE = "_blizzard/orders_shop"
ROOT = Path(__file__).parents[2]
ELSEWHERE: Mapping[str, str] = {
    "problem": "the source was not audited, and the text says why; found in tests/unit/test_cli_failed_source.py",
    "topic_gone": "tests/kafka/test_topic_audit.py",
    "another_cluster": "tests/kafka/test_other_brokers.py",
    "log_truncated": "tests/kafka/test_truncated_logs.py",
    "letters_unreadable": "tests/kafka/test_topic_audit.py",
    "start_unknown": "tests/kafka/test_topic_audit.py",
    "table_moved": "tests/unit/test_rebuild_command.py",
    "a value of the sample differs": "the same as rows of another content",
    "nothing_there": "a folder that there is not; found in tests/unit/test_cli_audit.py",
    "source_empty": "another place than before; found in tests/unit/test_cli_audit.py",
    "rows_not_compared": "no fault of the table: the text says why",
    "letters_doubled": "copies of objects, which are deleted by hand; found in tests/unit/test_audit_letters.py",
    "receipts_lost": "nothing is to be done; found in tests/unit/test_audit_faults.py",
    "table_restored": "the notice stays; its rows are those of rows_deleted",
    "rows_gone_before_the_log": "the same as rows_deleted",
    "rows_gone": "the same as rows_deleted",
    "rows_of_other_sources": "no fault: another configuration has them",
    "data_files_lost": "tests/spark/test_lost_data_file.py",
    "rows_uncounted": "a sample answers it and changes nothing; found in tests/unit/test_audit_uncounted.py",
}
"""Rows of the table that are not tried here, and why."""
LEFT: Mapping[str, set[str]] = {"ledger_incomplete": {"rows_uncounted"}, "txn_lost": {"rows_uncounted"}}
"""What the runbook says is found afterwards."""
REPAIR = ["audit", "pipelines.yaml", "--repair"]


def planted(name: str) -> Callable[[Plant], Plant]:
    def known(plant: Plant) -> Plant:
        PLANTED[name] = plant
        return plant

    return known


def replaced(name: str) -> Callable[[Callable[[RebuildLake, str], None]], Callable[[RebuildLake, str], None]]:
    def known(plant: Callable[[RebuildLake, str], None]) -> Callable[[RebuildLake, str], None]:
        REPLACED[name] = plant
        return plant

    return known


def remedies() -> Mapping[str, str]:
    """What the runbook says, by each name in the first column."""
    table = own_text("## What an audit finds")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
    return {name.strip("`"): remedy for names, remedy in rows[1:] for name in names.split(", ")}


def commands(name: str) -> list[list[str]]:
    found = re.findall(r"`blizzard ([^`]*)`", remedies()[name])
    return [words for words in (line.split() for line in found) if "pipelines.yaml" in words and "FILE" not in words]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RebuildLake:
    """With today's folder, and an older one that no sweep looks at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal())
    made = RebuildLake(tmp_path)
    made.file.write_text(made.text.replace("**/*.ndjson", "**") + DATED)
    made.land(FILE)
    made.land(REFUSED, bad=True)
    made.land(TORN)
    made.land(f"day={time.gmtime().tm_year}/today.ndjson")
    assert made.run() == 0
    return made


DATED = '        partition_filter: {prefix_template: "day=%Y", lookback: 1}\n'


def table(lake: RebuildLake) -> DeltaTable:
    return DeltaTable(str(lake.folder / "lake"))


def rows_of(lake: RebuildLake, path: str) -> pa.Table:
    rows = table(lake).to_pyarrow_table()
    return rows.filter(pc.equal(pc.struct_field(rows["_source"], "file"), path))


def append(lake: RebuildLake, path: str, **source: Any) -> None:
    """The first row of a file, once more, with other values in `_source`."""
    row = rows_of(lake, path).to_pylist()[0]
    row["_source"] |= source
    write_deltalake(table(lake), pa.Table.from_pylist([row], rows_of(lake, path).schema), mode="append")


@planted("missing")
def an_event_is_lost(lake: RebuildLake) -> None:
    lake.land("day=2001/late.ndjson")


@replaced("doubled")
def rows_are_appended_again(lake: RebuildLake, path: str) -> None:
    write_deltalake(table(lake), rows_of(lake, path), mode="append")


@replaced("other_content")
def rows_of_before_are_there(lake: RebuildLake, path: str) -> None:
    append(lake, path, etag="of before")


@replaced("changed")
def a_file_is_overwritten(lake: RebuildLake, path: str) -> None:
    lake.land(path, 5)


@replaced("rows_deleted")
def a_row_is_deleted(lake: RebuildLake, path: str) -> None:
    table(lake).delete(f"_source.file = '{path}' AND _source.row = 1")


@replaced("rows_added")
def a_row_is_appended_by_hand(lake: RebuildLake, path: str) -> None:
    append(lake, path, row=99)


@planted("letters_lost")
def the_letter_of_a_whole_file_is_deleted(lake: RebuildLake) -> None:
    letters = DeadLetters(LocalStore(lake.folder / "lake"), STATE, "orders:shop")
    (letter,) = (each for each in letters.letters() if each["path"] == TORN)
    shutil.rmtree(lake.folder / "lake" / letters.dead_letter_folder(TORN, str(letter["etag"])))


@planted("table_behind")
def the_copy_is_of_a_later_commit(lake: RebuildLake) -> None:
    copy = lake.folder / "lake" / f"{STATE}_checkpoint.json"
    state = json.loads(copy.read_text())
    copy.write_text(json.dumps(state | {"sequence": state["sequence"] + 5}))


@planted("txn_lost")
def the_table_is_copied_without_its_log(lake: RebuildLake) -> None:
    become_table_of(lake.folder / "lake", table(lake).to_pyarrow_table())


@planted("state_unreadable")
def the_checkpoint_of_the_newest_commit_is_torn(lake: RebuildLake) -> None:
    log = max((lake.folder / "lake" / "_delta_log").glob("*.json"))
    log.write_text(log.read_text().replace('\\"sequence\\":', '\\"sequenc\\":'))


@planted("ledger_incomplete")
def receipts_are_deleted_and_the_ledger_with_them(lake: RebuildLake) -> None:
    shutil.rmtree(lake.folder / "lake" / STATE / "receipts")


@planted("manifest_wiped")
def the_manifest_is_deleted(lake: RebuildLake) -> None:
    shutil.rmtree(lake.folder / "lake" / STATE / "pending")


@planted("segment_unreadable")
def a_segment_is_forged(lake: RebuildLake) -> None:
    pending = lake.folder / "lake" / STATE / "pending"
    newest = max(int(each.stem) for each in pending.iterdir())
    (pending / f"{newest + 1:020d}.json").write_text('{"format": 1}')


def manifest(lake: RebuildLake) -> Manifest:
    return Manifest(LocalStore(lake.folder / "lake"), STATE, "orders:shop")


@planted("manifest_broken")
def a_segment_does_not_follow_the_one_before(lake: RebuildLake) -> None:
    number = manifest(lake).append([], writer_id="w", now_ts=time.time(), sweep=Sweep())
    pending = lake.folder / "lake" / STATE / "pending"
    text = (pending / f"{number:020d}.json").read_text().replace(f'"segment":{number}', f'"segment":{number + 1}')
    (pending / f"{number + 1:020d}.json").write_text(text)


@planted("announced_absent")
def a_file_is_announced_that_is_not_there(lake: RebuildLake) -> None:
    manifest(lake).append([Entry("day=1/none", 9, "e", time.time())], writer_id="w", now_ts=time.time())


@planted("objects_not_listed")
def a_link_is_made(lake: RebuildLake) -> None:
    (lake.folder / "incoming" / "day=1" / "link.ndjson").symlink_to(lake.folder / "incoming" / FILE)


@planted("rows_of_unknown_sources")
def rows_name_a_source_that_nobody_knows(lake: RebuildLake) -> None:
    append(lake, FILE, source="nobody:knows")


@planted("rows_of_nobody")
def rows_name_no_source(lake: RebuildLake) -> None:
    row = rows_of(lake, FILE).to_pylist()[0] | {"_source": None}
    write_deltalake(table(lake), pa.Table.from_pylist([row], rows_of(lake, FILE).schema), mode="append")


def audit(lake: RebuildLake, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["audit", "--json", "pipelines.yaml"])
    (report,) = json.loads(capsys.readouterr().out)
    return code, report


def found(report: dict[str, Any]) -> set[str]:
    """The names of all that an audit has found."""
    kinds = {notice["kind"] for notice in report["notices"]}
    return kinds | {name for name in remedies() if report.get(name) or report["names"].get(name)}


def delete_rows(lake: RebuildLake, name: str, **values: str) -> None:
    """By the SQL that the runbook gives for it. Nothing if it gives none."""
    for condition in re.findall(r"`DELETE FROM` the table `WHERE ([^`]*)`", remedies()[name]):
        for word, value in values.items():
            condition = condition.replace(word, value)
        assert table(lake).delete(condition)["num_deleted_rows"] > 0, condition


def by_hand(lake: RebuildLake, name: str, report: dict[str, Any]) -> None:
    """What the runbook has somebody delete."""
    for each in report["others"]:
        delete_rows(lake, name, SOURCE=each["source"] or "")
    for each in report["names"]["objects_not_listed"]:
        (lake.folder / "incoming" / each["path"]).unlink()
    for notice in report["notices"]:
        if notice["kind"] == "segment_unreadable":
            (number,) = re.findall(r"segment (\d+) of orders:shop", notice["text"])
            (lake.folder / "lake" / STATE / "pending" / f"{int(number):020d}.json").unlink()


def test_each_row_of_the_runbook_is_tried() -> None:
    assert {*remedies()} - {*ELSEWHERE} == {*PLANTED, *REPLACED}
    named = [(name, file) for name, why in ELSEWHERE.items() for file in re.findall(r"tests/\S+\.py", why)]
    assert len(named) > 5
    assert [(name, file) for name, file in named if name not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_an_audit_finds_is_put_right(name: str, lake: RebuildLake, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(audit(lake, capsys)[1]) == set()
    PLANTED[name](lake)
    _, report = audit(lake, capsys)
    assert name in found(report), report
    by_hand(lake, name, report)
    for command in commands(name):
        assert main(command) == (1 if command == REPAIR else 0), command
    lake.land(f"day={time.gmtime().tm_year}/next.ndjson")
    for _ in range(2):
        assert lake.run() == 0
    code, report = audit(lake, capsys)
    assert (code, found(report)) == (0, LEFT.get(name, set())), report


def test_rows_of_a_file_that_the_source_does_not_have_are_deleted(
    lake: RebuildLake, capsys: pytest.CaptureFixture[str]
) -> None:
    append(lake, FILE, file="day=1/none.ndjson")
    code, report = audit(lake, capsys)
    (added,) = report["names"]["rows_added"]
    assert (code, added["path"]) == (1, "day=1/none.ndjson")
    delete_rows(lake, "rows_added", FILE=added["path"])
    code, report = audit(lake, capsys)
    assert (code, found(report)) == (0, set()), report
