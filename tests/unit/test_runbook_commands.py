"""Each trouble that the runbook solves with Blizzard's own commands, solved word by word."""

import io
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blizzard.audit import audit
from blizzard.cli import main
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.log import silent
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.wiring import source_job
from tests.unit.documents import first_cells, section, text, words
from tests.unit.rebuild_lake import RebuildLake, local_engine

Prepare = Callable[[RebuildLake], None]
Ask = Callable[..., Any]
"""Runs a command with `--json`, and gives what it answers, whatever its exit code."""
Wrong = Callable[[Ask], list[str]]
"""What a command says is wrong."""

REPORT_KEY = SourceIdentity("orders", "shop", "_blizzard/orders_shop").report_key


def nothing(_: RebuildLake) -> None:
    """Happens besides the commands."""


@dataclass(frozen=True)
class Trouble:
    """`answers`: of each command the exit code and something of its answer. `wrong`: until it is solved. `meanwhile`:
    what happens by itself before the commands; `then`: what their section, in `words`, has somebody do after them."""

    prepare: Prepare
    answers: Mapping[str, tuple[int, str]]
    wrong: Wrong
    meanwhile: Prepare
    then: Prepare
    words: str


TROUBLES: dict[str, Trouble] = {}
"""By heading."""


class Terminal(io.StringIO):
    """Somebody who answers every question with yes."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        return "y\n"


def trouble(
    heading: str,
    wrong: Wrong,
    *,
    meanwhile: Prepare = nothing,
    then: Prepare = nothing,
    words: str = "",
    **answers: tuple[int, str],
) -> Callable[[Prepare], Prepare]:
    def known(prepare: Prepare) -> Prepare:
        TROUBLES[heading] = Trouble(prepare, answers, wrong, meanwhile, then, words)
        return prepare

    return known


def by_doctor(*checks: str) -> Wrong:
    def wrong(ask: Ask) -> list[str]:
        found = ask("doctor")["checks"]
        assert {*checks} <= {each["id"] for each in found}
        return [each["id"] for each in found if each["id"] in checks and each["verdict"] in ("warning", "problem")]

    return wrong


def by_audit(*counts: str) -> Wrong:
    def wrong(ask: Ask) -> list[str]:
        (report,) = ask("audit")
        return [name for name in counts if report[name]] + ["verdict"] * (report["verdict"] == "bad")

    return wrong


def by_status(ask: Ask) -> list[str]:
    (status,) = ask("status")
    return [name for name in ("problem", "backlog_files") if status[name]]


def by_circuit(ask: Ask) -> list[str]:
    """The doctor goes on to warn of the failed run, until another one has succeeded."""
    (status,) = ask("status")
    problems = [each["id"] for each in ask("doctor")["checks"] if each["verdict"] == "problem"]
    return [each for each in (status["run"]["phase"], *problems) if each != Phase.FAILED]


def the_next_run(lake: RebuildLake) -> None:
    assert lake.run() == 0


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


@trouble(
    "## Dead-letter queue of the events",
    by_audit("missing"),
    then=the_next_run,
    words="is announced again with `--repair`",
    audit=(1, "missing        1"),
    repaired=(1, "announced again"),
)
def an_event_is_lost_in_a_closed_folder(lake: RebuildLake) -> None:
    lake.file.write_text(lake.text + '        partition_filter: {prefix_template: "day=%Y", lookback: 1}\n')
    lake.land(f"day={time.gmtime().tm_year}/b.ndjson")
    lake.run()
    lake.land("day=2001/late.ndjson")


@trouble(
    "## Files wait too long",
    by_status,
    then=the_next_run,
    words="how many files wait, and about how long they take",
    status=(0, "backlog"),
    plan=(0, "1 files"),
)
def a_file_waits(lake: RebuildLake) -> None:
    lake.run()
    lake.land("day=1/b.ndjson")
    sweep(lake)


def sweep(lake: RebuildLake) -> None:
    ((pipeline, source),) = lake.config().sources()
    source_job(pipeline, source, engine=local_engine(), s3=S3Settings(), log=silent).discovery.discover_all()


@trouble(
    "### A table without its Txn",
    by_doctor("table.txns"),
    rebuild=(0, "rebuilt"),
    run=(0, "nothing new"),
    audit=(0, "verdict        notes"),
)
def a_table_was_copied_without_its_log(lake: RebuildLake) -> None:
    lake.run()
    lake.copy_rows()


@trouble(
    "### Lost checkpoints, receipts or ledger",
    by_doctor("state.copy", "state.receipts", "state.ledger"),
    rebuild=(0, "rebuilt"),
)
def receipts_and_copy_are_lost(lake: RebuildLake) -> None:
    lake.run()
    shutil.rmtree(lake.folder / "lake" / "_blizzard")


@trouble("## The circuit is open", by_circuit, status=(0, "open"), resume=(0, "orders"))
def runs_failed_in_a_row(lake: RebuildLake) -> None:
    lake.run()
    record = RunRecord(1, "orders", "epoch", 1, Phase.OPEN, "print", failures=5, reason="FAILED: no memory")
    RunLog(LocalStore(lake.folder / "lake"), "orders", lambda: "id").append(record, now_ts=time.time())


@trouble(
    "## A sweep found missed files",
    by_audit("pending"),
    meanwhile=the_next_run,
    files=(0, "day=1/a.ndjson"),
    audit=(0, "verdict        good"),
)
def a_sweep_has_found_a_file(lake: RebuildLake) -> None:
    sweep(lake)


def the_folder_comes_back(lake: RebuildLake) -> None:
    (lake.folder / "elsewhere").rename(lake.folder / "incoming")


@trouble(
    "## Sweeps fail",
    by_doctor("storage.source-list"),
    then=the_folder_comes_back,
    words="a bucket or prefix that the sweeper may not list",
    doctor=(1, "there is no such folder"),
)
def the_folder_is_gone(lake: RebuildLake) -> None:
    lake.run()
    (lake.folder / "incoming").rename(lake.folder / "elsewhere")


def sweep_once_from_here(lake: RebuildLake) -> None:
    assert main(["run", "--once", "pipelines.yaml"]) == 0


@trouble(
    "## Sweeps stay unfinished",
    by_doctor("state.sweeps"),
    then=sweep_once_from_here,
    words="`blizzard run --once`",
    doctor=(0, "there is no report of one"),
    plan=(0, "1 files"),
)
def no_sweep_has_ended(lake: RebuildLake) -> None:
    lake.run()
    (lake.folder / "lake" / REPORT_KEY).unlink()
    lake.land("day=1/b.ndjson")


def change_table_uri(lake: RebuildLake) -> None:
    """To what `blizzard status` names."""
    (status,) = answer("status")
    (named,) = re.findall(r"(\S+/lake2)\b", status["problem"])
    lake.file.write_text(lake.text.replace("table_uri: lake ", f"table_uri: {named} "))


@trouble(
    "### A table that was moved",
    by_status,
    then=change_table_uri,
    words="`table_uri` to the table that the error and `blizzard status` name",
    status=(1, "has taken the place of this one"),
)
def another_table_has_taken_its_place(lake: RebuildLake) -> None:
    lake.run()
    assert main(["rebuild", "pipelines.yaml", "--to", "lake2", "--swap", "--yes"]) == 0
    lake.file.write_text(lake.text)


@trouble(
    "## Dead letters",
    by_doctor("state.dead-letters"),
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


def answer(command: str) -> Any:
    said = io.StringIO()
    with redirect_stdout(said):
        main([command, "--json", "pipelines.yaml"])
    return json.loads(said.getvalue())


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
    known = TROUBLES[heading]
    assert known.words in " ".join(own_text(heading).split())
    known.prepare(lake)
    assert known.wrong(answer) != []
    known.meanwhile(lake)
    for command in commands_of(heading):
        capsys.readouterr()
        code, said = expected_of(command, known.answers)
        found = main(command)
        shown = capsys.readouterr()
        assert (found, said in shown.out) == (code, True), f"{' '.join(command)}: {shown.out}{shown.err}"
    known.then(lake)
    assert known.wrong(answer) == []
    assert answer("audit")[0]["verdict"] in ("good", "notes")
