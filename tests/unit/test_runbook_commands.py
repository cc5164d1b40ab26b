"""Each trouble that the runbook solves with Blizzard's own commands, solved word by word."""

import io
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from blizzard.audit import audit
from blizzard.cli import main
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from tests.unit.documents import first_cells, section, text, words
from tests.unit.rebuild_lake import RebuildLake

Prepare = Callable[[RebuildLake], None]
TROUBLES: dict[str, tuple[Prepare, Mapping[str, tuple[int, str]]]] = {}
"""By heading: the trouble, and of each command the exit code and something of its answer."""

REPORT_KEY = SourceIdentity("orders", "shop", "_blizzard/orders_shop").report_key


class Terminal(io.StringIO):
    """Somebody who answers every question with yes."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        return "y\n"


def trouble(heading: str, **answers: tuple[int, str]) -> Callable[[Prepare], Prepare]:
    def known(prepare: Prepare) -> Prepare:
        TROUBLES[heading] = prepare, answers
        return prepare

    return known


def commands_of(heading: str) -> list[list[str]]:
    """Without those that need a stack."""
    found = re.findall(r"^ *\$ blizzard (.*)$", own_text(heading), re.MULTILINE)
    return [line.split() for line in found if "--stack" not in line]


def own_text(heading: str) -> str:
    """Without the sections below it."""
    return re.split(r"^#", section("docs/runbook.md", heading), maxsplit=1, flags=re.MULTILINE)[0]


HEADINGS = re.findall(r"^#{2,3} .*$", text("docs/runbook.md"), re.MULTILINE)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RebuildLake:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal())
    made = RebuildLake(tmp_path)
    made.land("day=1/a.ndjson")
    return made


@trouble("## Dead-letter queue of the events", audit=(1, "missing        1"), repaired=(1, "announced again"))
def an_event_is_lost_in_a_closed_folder(lake: RebuildLake) -> None:
    lake.file.write_text(lake.text + '        partition_filter: {prefix_template: "day=%Y", lookback: 1}\n')
    lake.land(f"day={time.gmtime().tm_year}/b.ndjson")
    lake.run()
    lake.land("day=2001/late.ndjson")


@trouble("## Files wait too long", status=(0, "backlog"), plan=(0, "1 files"))
def a_file_waits(lake: RebuildLake) -> None:
    lake.run()
    lake.land("day=1/b.ndjson")


@trouble(
    "### A table without its Txn", rebuild=(0, "rebuilt"), run=(0, "nothing new"), audit=(0, "verdict        notes")
)
def a_table_was_copied_without_its_log(lake: RebuildLake) -> None:
    lake.run()
    lake.copy_rows()


@trouble("### Lost checkpoints, receipts or ledger", rebuild=(0, "rebuilt"))
def receipts_and_copy_are_lost(lake: RebuildLake) -> None:
    lake.run()
    shutil.rmtree(lake.folder / "lake" / "_blizzard")


@trouble("## The circuit is open", status=(0, "open"), resume=(0, "orders"))
def runs_failed_in_a_row(lake: RebuildLake) -> None:
    lake.run()
    record = RunRecord(1, "orders", "epoch", 1, Phase.OPEN, "print", failures=5, reason="FAILED: no memory")
    RunLog(LocalStore(lake.folder / "lake"), "orders", lambda: "id").append(record, now_ts=time.time())


@trouble("## A sweep found missed files", files=(0, "day=1/a.ndjson"), audit=(0, "verdict        good"))
def a_sweep_has_found_a_file(lake: RebuildLake) -> None:
    lake.run()


@trouble("## Sweeps fail", doctor=(1, "there is no such folder"))
def the_folder_is_gone(lake: RebuildLake) -> None:
    lake.run()
    shutil.rmtree(lake.folder / "incoming")


@trouble("## Sweeps stay unfinished", doctor=(0, "there is no report of one"), plan=(0, "1 files"))
def no_sweep_has_ended(lake: RebuildLake) -> None:
    lake.run()
    (lake.folder / "lake" / REPORT_KEY).unlink()
    lake.land("day=1/b.ndjson")


@trouble("### A table that was moved", status=(1, "has taken the place of this one"))
def another_table_has_taken_its_place(lake: RebuildLake) -> None:
    lake.run()
    assert main(["rebuild", "pipelines.yaml", "--to", "lake2", "--swap", "--yes"]) == 0
    lake.file.write_text(lake.text)


@trouble(
    "## Dead letters",
    letters=(0, "1 refused records"),
    status=(0, "dead"),
    dry=(0, "1 files would be read"),
    replay=(1, "1 files were refused again"),
    records=(0, "1 files are in the table now: 1 rows"),
)
def a_record_is_refused(lake: RebuildLake) -> None:
    lake.land("day=1/b.ndjson", bad=True)
    lake.run()
    line = {"path": "day=1/b.ndjson", "row": 3, "record": {"id": "repaired", "amount": 3}}
    (lake.folder / "repaired.ndjson").write_text(json.dumps(line))


def expected_of(command: list[str], answers: Mapping[str, tuple[int, str]]) -> tuple[int, str]:
    options = {"--dry-run": "dry", "--records": "records", "--repair": "repaired"}
    names = [name for option, name in options.items() if option in command]
    return answers[names[0] if names else command[0]]


def test_each_alarm_has_a_command_that_helps() -> None:
    alarms = {heading for heading in HEADINGS if re.search(r"^`\w+Alarm`: ", own_text(heading).strip())}
    assert len(alarms) > 15
    assert {heading for heading in alarms if "$ blizzard " not in own_text(heading)} == set()


def test_whatever_an_audit_finds_has_an_answer() -> None:
    notices = {*first_cells(section("docs/cli.md", "## `blizzard audit`"))}
    answered = words(section("docs/runbook.md", "## What an audit finds"))
    assert {*audit.BAD} | {kind for kind in notices if re.fullmatch("[a-z]+(_[a-z]+)+", kind)} - FIELDS <= answered


FIELDS = {"skipped_by", "table_version", "listed_at", "table_uri"}
"""Of the answer: no faults."""


def test_each_section_with_commands_has_a_trouble_here() -> None:
    assert {heading for heading in HEADINGS if commands_of(heading)} == {*TROUBLES}


@pytest.mark.parametrize("heading", TROUBLES)
def test_a_trouble_is_solved_word_by_word(heading: str, lake: RebuildLake, capsys: pytest.CaptureFixture[str]) -> None:
    prepare, answers = TROUBLES[heading]
    prepare(lake)
    for command in commands_of(heading):
        capsys.readouterr()
        code, said = expected_of(command, answers)
        found = main(command)
        shown = capsys.readouterr()
        assert (found, said in shown.out) == (code, True), f"{' '.join(command)}: {shown.out}{shown.err}"
