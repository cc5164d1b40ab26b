"""Every command and option is documented, and every command on a page exists."""

import json
import re
import shlex
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from blizzard.audit.audit import NAMED
from blizzard.audit.lives import Life
from blizzard.audit.plan import Backlog, History
from blizzard.audit.reach import Fate
from blizzard.audit.report import AuditReport, RowsAudit, SampleAudit, Verdict
from blizzard.audit.topic_plan import MessageHistory, PartitionBacklog, TopicBacklog
from blizzard.audit.topic_ranges import OffsetsLife
from blizzard.cli import COMMANDS, app, load, main
from blizzard.cli.files import State
from blizzard.cli.letter_groups import LetterGroup
from blizzard.cli.letters import Letters
from blizzard.cli.plan import PipelinePlan, SourcePlan
from blizzard.cli.plan_topics import TopicPlan
from blizzard.cli.setup import Result, _as_json
from blizzard.cli.source_status import SourceStatus
from blizzard.cli.versions import versions
from blizzard.infer.findings import (
    ColumnFound,
    DatedFound,
    FilesLeftOut,
    Findings,
    LeftOutField,
    PipelineFound,
    RuleFound,
    SourceFound,
)
from blizzard.kafka.batch_limits import BatchLimits
from blizzard.prices.backlog import Estimate
from blizzard.prices.price_list import read_prices
from blizzard.state.checkpoint import Checkpoint
from spark_job.rebuild.compare import Comparison
from spark_job.rebuild.state import NOTES, Found
from spark_job.repair.answer import answer_of
from spark_job.repair.wishes import Wish
from spark_job.repair.work import Fate as RepairFate
from spark_job.repair.work import Item, Kind, Work
from spark_job.repair.work import Result as RepairResult
from tests.unit.documents import ROOT, Fence, calls, everything, fences, first_texts, name_of, section, words


def options(command: str) -> set[str]:
    return _options(load(command))


def root_options() -> set[str]:
    return _options(typer.main.get_command(app()))


def _options(command: Any) -> set[str]:
    return {option for p in command.params if p.param_type_name == "option" for option in p.opts}


def option_rows(markdown: str) -> set[str]:
    return set(re.findall(r"^\| `(--[\w-]+)", markdown, re.MULTILINE))


def test_every_module_that_a_page_starts_exists() -> None:
    named = {*re.findall(r"python -m ([\w.]*\w)", everything())}
    assert len(named) > 10
    assert [name for name in sorted(named) if find_spec(name) is None] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_with_each_of_its_options(command: str) -> None:
    assert option_rows(section("docs/cli.md", f"## `blizzard {command}`")) == options(command)


def test_every_option_without_a_command_is_documented() -> None:
    assert option_rows(section("docs/cli.md", "## Without a command")) == root_options()


def test_every_field_of_version_json_is_documented() -> None:
    assert {*versions()} <= words(section("docs/cli.md", "## Without a command"))


def test_every_field_of_setup_json_is_documented() -> None:
    result = _as_json(Result(Path(), 0, 0, "", None, None))
    assert {*result} <= words(section("docs/cli.md", "## `blizzard setup`"))


def test_every_option_of_the_job_is_documented() -> None:
    added = {option for call in calls("spark_job") if name_of(call) == "add_argument" for option in first_texts(call)}
    assert option_rows(section("docs/cli.md", "## The job itself")) == added


def test_every_field_of_init_json_is_documented() -> None:
    kinds = (Findings, PipelineFound, SourceFound, RuleFound, ColumnFound, DatedFound, LeftOutField, FilesLeftOut)
    names = {field.name for kind in kinds for field in fields(kind)} | {"out", "config"}
    assert names <= words(section("docs/cli.md", "## `blizzard init`"))


def test_commands_in_the_documents_exist() -> None:
    shown = [line for fence in fences("console") for line in fence.body.splitlines() if line.startswith("$ ")]
    called = [shlex.split(line[2:]) for line in shown]
    ours = [line[1:] for line in called if line[0].endswith("blizzard")]
    assert ours
    for command, *rest in ours:
        if command.startswith("-"):
            assert {command, *rest} <= root_options()
            continue
        assert command in COMMANDS
        assert {word for word in rest if word.startswith("-")} <= options(command)


SHOWN_WHOLE = [
    fence
    for fence in fences("console")
    if fence.body.startswith("$ blizzard validate") and "…" not in fence.body
    if fence.document != "docs/schemas.md"  # test_schema_story.py
]


@pytest.mark.parametrize("fence", SHOWN_WHOLE, ids=str)
def test_the_documented_output_of_validate_is_its_output(
    fence: Fence, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (broken,) = fences("yaml", kind="broken")
    (tmp_path / "broken.yaml").write_text(broken.body)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    first, _, expected = fence.body.partition("\n")
    main(shlex.split(first)[2:])
    assert capsys.readouterr().out == expected


def test_every_field_of_status_json_is_documented() -> None:
    in_status = words(section("docs/cli.md", "## `blizzard status`"))
    assert {field.name for field in fields(SourceStatus)} <= in_status
    (shown,) = [json.loads(f.body.partition("\n")[2]) for f in fences("console") if "status --json" in f.body]
    assert [list(status) for status in shown] == [[field.name for field in fields(SourceStatus)]]


def replaced_one() -> dict[str, Any]:
    """The answer of `replace`, which is that of `replay`, with something in each of its lists."""
    item = Item(Kind.REPLACE, "done")
    wish = Wish(results=[RepairResult(item, RepairFate.DONE, refused={0: "bad"})], deleted={"done": 1})
    return dict(answer_of("", wish, Work([Item(Kind.FILE, "left")]), kind="files", dry_run=False, error=None))


def test_every_field_of_the_operators_json_is_documented() -> None:
    plan = {name for kind in (Backlog, Estimate) for name in kind.__dataclass_fields__} - {"secs"}
    replaced = replaced_one()
    file = replaced["files"][0]
    documents: dict[str, set[str]] = {
        "audit": {
            *AuditReport.__dataclass_fields__,
            *RowsAudit.__dataclass_fields__,
            *SampleAudit.__dataclass_fields__,
            *NAMED,
            *(name for names in NAMED.values() for name in names),
            *Fate,
            *Verdict,
        },
        "files": {*Life.__dataclass_fields__, *State},
        "letters": {*Letters("").as_document(details=False), *LetterGroup("", "").as_document()},
        "replay": {
            *replaced,
            *replaced["counts"],
            *(name for one in (file, *file["refused"], *replaced["deleted"], *replaced["left"]) for name in one),
            *RepairFate,
            *Kind,
        },
        "rebuild": {
            *NOTES,
            *Found("", Checkpoint("", ""), (), (), 0, commits=False).as_document(),
            *Comparison("").as_document(),
        },
        "plan": {
            *plan,
            *SourcePlan("", True, Backlog(), History()).as_document(),
            *PipelinePlan("", "", [], Estimate(0, 0), [], read_prices()).as_document(),
        },
    }
    for command, names in documents.items():
        assert names <= words(section("docs/cli.md", f"## `blizzard {command}`")), command
    assert "JSON output are as for [replay](#blizzard-replay)" in section("docs/cli.md", "## `blizzard replace`")


def test_every_field_of_the_operators_json_about_topics_is_documented() -> None:
    plan = TopicPlan("", TopicBacklog(True), MessageHistory(), BatchLimits(1, 1)).as_document()
    documents = {
        "## What the next runs would read": {*plan, *PartitionBacklog.__dataclass_fields__},
        "## Which commit has a message": {*OffsetsLife.__dataclass_fields__},
    }
    for heading, names in documents.items():
        assert names <= words(section("docs/kafka.md", heading)), heading


def test_every_notice_of_an_audit_is_documented() -> None:
    kinds = {text for call in calls("blizzard/audit") if name_of(call) == "Notice" for text in first_texts(call)}
    assert {"manifest_wiped", "receipts_lost"} < kinds
    assert kinds <= words(section("docs/cli.md", "## `blizzard audit`"))


def test_every_field_of_validate_json_is_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text("pipelines: {}")
    main(["validate", "--json", str(tmp_path / "pipelines.yaml")])
    main(["validate", "--json", str(ROOT / "examples" / "s3-events.yaml")])
    bad, good = (json.loads(part) for part in re.split(r"(?<=^\})\n", capsys.readouterr().out, flags=re.M)[:2])
    names = {*bad, *bad["problems"][0], *good["sources"][0]}
    assert names <= words(section("docs/cli.md", "## `blizzard validate`"))
