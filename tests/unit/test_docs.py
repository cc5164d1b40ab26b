"""The documents stay true: what the code offers is in them, and what they show is what the code does."""

import ast
import gzip
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from blizzard.cli import COMMANDS, app, main
from blizzard.cli.source_status import SourceStatus
from blizzard.config.load import read_config
from blizzard.dispatch.run_records import decode as decode_run
from blizzard.dispatch.run_records import encode as encode_run
from blizzard.manifest.segment_codec import decode_segment, encode_segment
from blizzard.manifest.segments import SegmentRef
from blizzard.state.checkpoint import decode, encode
from blizzard.state.dead_letters import DeadLetter, Stage
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.source_sweep import read_reports
from spark_job.ports.stopwatch import TurnSecs

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
DEPLOYED = ("blizzard", "functions", "spark_job")
PARTS = [field.name for field in fields(TurnSecs)]
"""Of a turn of the loop, each timed."""
LOGGING = {"log", "_log", "log_warning", "_log_warning", "log_error", "_log_error", "info", "warning", "error"}


def text(name: str) -> str:
    return (ROOT / name).read_text()


def everything() -> str:
    return "\n".join(document.read_text() for document in DOCUMENTS)


@dataclass(frozen=True)
class Fence:
    """A fenced block: ```` ```json segment ```` has language `json` and kind `segment`."""

    document: str
    line: int
    language: str
    kind: str
    body: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def fences(*languages: str, kind: str | None = None) -> list[Fence]:
    found = (fence for document in DOCUMENTS for fence in fences_of(document))
    return [fence for fence in found if fence.language in languages and kind in (None, fence.kind)]


def fences_of(document: Path) -> Iterator[Fence]:
    content = document.read_text()
    for match in re.finditer(r"^```(\w*)[ ]?([^\n`]*)\n(.*?)^```$", content, re.MULTILINE | re.DOTALL):
        line = content.count("\n", 0, match.start()) + 1
        yield Fence(document.relative_to(ROOT).as_posix(), line, *match.groups())


def section(document: str, heading: str) -> str:
    """From a heading to the next one of its level or above."""
    level = heading.partition(" ")[0]
    start = text(document).index(f"\n{heading}\n") + 1
    rest = text(document)[start + len(heading) :]
    end = re.search(rf"^#{{1,{len(level)}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def words(markdown: str) -> set[str]:
    """What stands between backquotes, each with its first word alone too: `--config URI` is also `--config`."""
    spans = re.findall(r"`([^`\n]+)`", markdown)
    return {*spans, *(span.split()[0] for span in spans if span.strip())}


def first_cells(markdown: str) -> dict[str, str]:
    """The rows of all tables whose first cell is one word of code: the word, and the rest of the row."""
    return dict(re.findall(r"^\| `([^`|]+)` \|(.*)$", markdown, re.MULTILINE))


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def calls(*folders: str) -> list[ast.Call]:
    """Every call in the Python files of these folders."""
    trees = [ast.parse(path.read_text()) for path in python_files(*folders)]
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def first_texts(call: ast.Call) -> list[str]:
    """The text that is a call's first argument, or both where a condition picks one."""
    first = call.args[0] if call.args else None
    choices = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
    return [c.value for c in choices if isinstance(c, ast.Constant) and isinstance(c.value, str)]


# --- Commands ---


def options(command: str) -> set[str]:
    click_command: Any = typer.main.get_command(app(command))
    parameters = click_command.commands[command].params
    return {option for p in parameters if p.param_type_name == "option" for option in p.opts}


def option_rows(markdown: str) -> set[str]:
    return set(re.findall(r"^\| `(--[\w-]+)", markdown, re.MULTILINE))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_with_each_of_its_options(command: str) -> None:
    assert option_rows(section("docs/cli.md", f"## `blizzard {command}`")) == options(command)


def test_every_option_of_the_job_is_documented() -> None:
    added = {option for call in calls("spark_job") if name_of(call) == "add_argument" for option in first_texts(call)}
    assert option_rows(section("docs/cli.md", "## The job itself")) == added


def test_the_commands_that_the_documents_show_exist() -> None:
    shown = [line for fence in fences("console") for line in fence.body.splitlines() if line.startswith("$ ")]
    called = [shlex.split(line[2:]) for line in shown]
    ours = [line[1:] for line in called if line[0].endswith("blizzard")]
    assert ours
    for command, *rest in ours:
        assert command in COMMANDS
        assert {word for word in rest if word.startswith("-")} <= options(command)


SHOWN_WHOLE = [f for f in fences("console") if f.body.startswith("$ blizzard validate") and "…" not in f.body]


@pytest.mark.parametrize("fence", SHOWN_WHOLE, ids=str)
def test_what_validate_is_shown_to_say_is_what_it_says(
    fence: Fence, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (broken,) = fences("yaml", kind="broken")
    (tmp_path / "broken.yaml").write_text(broken.body)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    first, _, expected = fence.body.partition("\n")
    main(shlex.split(first)[2:])
    assert capsys.readouterr().out == expected


def test_every_field_of_the_json_answers_is_documented() -> None:
    in_status = words(section("docs/cli.md", "## `blizzard status`"))
    assert {field.name for field in fields(SourceStatus)} <= in_status
    (shown,) = [json.loads(f.body.partition("\n")[2]) for f in fences("console") if "status --json" in f.body]
    assert [list(status) for status in shown] == [[field.name for field in fields(SourceStatus)]]


def test_every_field_that_validate_answers_is_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text("pipelines: {}")
    main(["validate", "--json", str(tmp_path / "pipelines.yaml")])
    main(["validate", "--json", str(ROOT / "examples" / "s3-events.yaml")])
    bad, good = (json.loads(part) for part in re.split(r"(?<=^\})\n", capsys.readouterr().out, flags=re.M)[:2])
    names = {*bad, *bad["problems"][0], *good["sources"][0]}
    assert names <= words(section("docs/cli.md", "## `blizzard validate`"))


# --- Environment, make, packages ---


def variables_read() -> set[str]:
    """Names that the Python code looks up, which all are in capitals, and those that make, set-up and examples take."""
    lookups = [call for call in calls(*DEPLOYED, "infra/setup") if name_of(call) == "get"]
    looked_up = {name for call in lookups for name in first_texts(call)}
    in_python = {name for name in looked_up if re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", name)}
    asked_for = {
        name
        for path in python_files(*DEPLOYED)
        for name in re.findall(r'"([A-Z_]+)" (?:not )?in variables', path.read_text())
    }
    in_make = set(re.findall(r"\$\((PY[A-Z]+)\)", text("Makefile")))
    in_shell = set(re.findall(r"\$\{([A-Z_]+):", text("infra/setup/run")))
    examples = "\n".join(path.read_text() for path in (ROOT / "examples").glob("*.yaml"))
    return in_python | asked_for | in_make | in_shell | set(re.findall(r"\$\{(\w+)", examples))


def test_every_environment_variable_that_is_read_is_documented() -> None:
    found = variables_read()
    known = {"BLIZZARD_CONFIG", "AWS_ENDPOINT_URL", "PYSPARK_PYTHON", "JAVA_HOME", "PYTEST", "PYTHON", "BLIZZARD_LAKE"}
    assert known <= found
    assert found <= words(section("docs/cli.md", "## Environment"))


def test_every_make_target_is_documented_and_every_documented_one_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text("Makefile"), re.MULTILINE)) - {"help"}
    in_code = [*(fence.body for fence in fences("console", "")), *words(everything())]
    named = {name for code in in_code for name in re.findall(r"^(?:\$ )?make ([a-z][a-z-]*)", code, re.MULTILINE)}
    assert named == targets


def test_the_targets_that_make_is_shown_to_explain_are_those_that_it_explains() -> None:
    (shown,) = [fence.body.removeprefix("$ make\n") for fence in fences("console") if fence.body.startswith("$ make\n")]
    assert shown.splitlines() == re.findall(r'^\t@echo "(.*)"$', text("Makefile"), re.MULTILINE)


def test_every_package_has_its_reason_in_the_decisions() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in needed}
    why = section("docs/decisions.md", "## 2026-11-21: What the project depends on")
    assert {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", why)} == set()


# --- Decisions ---


@dataclass(frozen=True)
class Decision:
    title: str
    replaced: bool
    """By a newer one, says its first line: altogether, or as to how."""
    body: str

    def __str__(self) -> str:
        return self.title

    def bullets(self) -> dict[str, str]:
        found = re.split(r"^- \*\*(\w+)\.\*\*", self.body, flags=re.MULTILINE)[1:]
        return dict(zip(found[::2], found[1::2], strict=True))


def decisions() -> list[Decision]:
    found = re.split(r"^## \d{4}-\d\d-\d\d: (.+)\n\n", text("docs/decisions.md"), flags=re.MULTILINE)[1:]
    bodies = zip(found[::2], found[1::2], strict=True)
    return [Decision(title, body.startswith("**Replaced** "), body) for title, body in bodies]


@cache
def defined() -> dict[str, frozenset[str]]:
    """By Python file what is named in it: functions, classes, arguments, variables, and members as `Class.member`."""
    return {path.relative_to(ROOT).as_posix(): frozenset(names_in(path)) for path in python_files(*DEPLOYED, "infra")}


def names_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name):
                yield name
                yield from (f"{name}.{member}" for member in members_of(node))
            case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def members_of(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


NOT_OURS = {"ALTER TABLE", "jars/", "spark.delta.logStore.*.impl"}
"""What an undo names that is neither our Python nor a word of the template: SQL, a class path, settings of Spark."""


@pytest.mark.parametrize("decision", decisions(), ids=str)
def test_what_a_decision_names_to_undo_it_is_there(decision: Decision) -> None:
    bullets = decision.bullets()
    assert set(bullets) >= ({"Context", "Choice"} if decision.replaced else {"Context", "Undo"})
    undo = re.sub(r"\s+", " ", bullets.get("Undo", ""))
    everywhere = {name for names in defined().values() for name in names}
    for name in set(re.findall(r"`([^`]+)`", undo)) - NOT_OURS:
        called = name.partition("(")[0]
        assert (
            (ROOT / name).exists()
            or called in everywhere
            or re.search(rf"\b{re.escape(name)}\b", text("template.yaml"))
        )
    for name, file in re.findall(r"`([\w.]+)` (?:in|of) `([\w/]+\.py)`", undo):
        assert name in defined()[file]


def test_what_replaces_a_decision_is_another_one() -> None:
    replaced = [decision for decision in decisions() if decision.replaced]
    assert len(replaced) >= 4
    for decision in replaced:
        said = decision.body.partition("\n\n")[0]
        assert set(re.findall(r"\]\(#([^)]+)\)", said)) & anchors(ROOT / "docs" / "decisions.md")


# --- Log events and metrics ---


def logged(*folders: str) -> dict[str, set[str]]:
    """Each event that is logged, with the names of its fields as far as they stand in the call."""
    found: dict[str, set[str]] = {}
    for call in calls(*folders):
        for event in first_texts(call) if name_of(call) in LOGGING else ():
            if re.fullmatch(r"[a-z]+(_[a-z]+)*", event):
                found.setdefault(event, set()).update(fields_of(call))
    return found


def fields_of(call: ast.Call) -> Iterator[str]:
    """Keyword arguments; Powertools takes them as a dict, `extra`."""
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Dict) and keyword.arg == "extra":
            yield from (str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant))
        elif keyword.arg not in (None, "extra"):
            yield keyword.arg


def test_every_event_that_is_logged_is_documented_with_its_fields() -> None:
    rows = first_cells(text("docs/log-events.md"))
    events = logged(*DEPLOYED)
    assert {"batch_committed", "object_skipped", "segment_appended", "config_reload_failed"} <= set(events)
    assert set(rows) == set(events)
    missing = {event: names - words(rows[event]) for event, names in events.items()}
    assert {event: names for event, names in missing.items() if names} == {}


def test_events_that_are_shown_have_the_fields_that_are_logged() -> None:
    rows = first_cells(text("docs/log-events.md"))
    lines = [line for fence in fences("console", "json") for line in fence.body.splitlines() if '"event": ' in line]
    shown = [json.loads(line) for line in lines]
    assert {"swept", "recovered", "drained"} <= {event["event"] for event in shown}
    for event in shown:
        documented = re.findall(r"`(\w+)`", rows[event["event"]].split("|")[1])
        assert [*event] == ["ts", "event", *documented]
        assert list(event.get("secs", PARTS)) == PARTS


def test_each_part_of_a_turn_that_is_timed_is_documented() -> None:
    explained = re.findall(r"^- (`.+`): ", text("docs/log-events.md"), re.MULTILINE)
    assert words("\n".join(explained)) == set(PARTS)


def test_the_progress_of_a_run_knows_only_events_that_are_logged() -> None:
    tree = ast.parse(text("blizzard/cli/progress.py"))
    constants = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {value for value in constants if re.fullmatch(r"[a-z]+_[a-z_]+", value)}
    fields_used = {name for names in logged("spark_job").values() for name in names}
    totals = set(re.findall(r"^    (\w+): int = 0$", text("spark_job/loop/ingest.py"), re.MULTILINE))
    assert named - fields_used - totals <= set(logged(*DEPLOYED))


@pytest.mark.parametrize(
    ("function", "heading", "known"),
    [("collector", "## The function", "FilesAppended"), ("sweeper", "## The sweeper", "FilesMissed")],
)
def test_every_metric_is_documented(function: str, heading: str, known: str) -> None:
    metrics = set(re.findall(r'^        "([A-Z]\w+)": ', text(f"functions/{function}/report.py"), re.MULTILINE))
    assert known in metrics
    assert set(first_cells(section("docs/events.md", heading))) == metrics


def test_every_metric_of_the_dispatcher_is_documented() -> None:
    metrics = set(re.findall(r'"([A-Z]\w+)"(?:\]|:)', text("functions/dispatcher/report.py")))
    assert "OldestPendingSeconds" in metrics
    assert set(first_cells(section("docs/events.md", "## The dispatcher"))) == metrics


# --- What lies on storage ---


def again_segment(body: str) -> str:
    number = json.loads(body)["segment"]
    return encode_segment(
        decode_segment(body.encode(), "orders:shop", SegmentRef(number, "etag", 0)), "orders:shop"
    ).decode()


def again_checkpoint(body: str) -> str:
    return encode(decode(body, pipeline="orders", source="shop"))


def again_receipt(body: str) -> str:
    store = MemoryStore(lambda: 0.0)
    store.put("state/receipts/shown", gzip.compress(body.encode()))
    receipts = Receipts(store, "state")
    shown = receipts.get("shown")
    name = receipts.put(
        sequence=shown.sequence, attempt="a", previous=shown.previous, now_ts=shown.written_ts, lines=shown.lines
    )
    return gzip.decompress(store.get(f"state/receipts/{name}")).decode()


def again_sweep(body: str) -> str:
    store, shown = MemoryStore(lambda: 0.0), SourceIdentity("orders", "shop", "state")
    store.put(shown.report_key, body.encode())
    return read_reports(store, shown).to_json()


def again_dead_letter(body: str) -> str:
    shown = json.loads(body)
    letter = DeadLetter(
        shown["path"], shown["etag"], Stage(shown["stage"]), shown["error"], shown.get("row"), shown.get("raw")
    )
    return json.dumps({**json.loads(letter.to_json(shown["source"], 0.0)), "timestamp": shown["timestamp"]})


def again_run(body: str) -> str:
    shown = json.loads(body)
    record = decode_run(body.encode(), pipeline=shown["pipeline"], number=shown["number"])
    return encode_run(record, shown["writer"]).decode()


AGAIN: dict[str, Callable[[str], str]] = {
    "segment": again_segment,
    "checkpoint": again_checkpoint,
    "receipt": again_receipt,
    "sweep": again_sweep,
    "dead letter": again_dead_letter,
    "run": again_run,
}


def test_each_kind_of_stored_object_is_shown() -> None:
    assert {fence.kind for fence in fences("json")} == set(AGAIN)


@pytest.mark.parametrize("fence", fences("json"), ids=str)
def test_what_is_shown_of_storage_is_what_the_code_reads_and_writes(fence: Fence) -> None:
    again = json.loads(AGAIN[fence.kind](fence.body))
    shown = json.loads(fence.body)
    assert again == shown
    assert list(again) == list(shown)


def test_every_field_of_a_segment_and_of_the_checkpoint_is_explained() -> None:
    on_manifest = words(section("docs/storage-formats.md", "## The pending manifest"))
    assert {"previous", "event_ts", "version_id", "sweep.closing", "sweep.chain", "sweep.late_swept_ts"} <= on_manifest
    (checkpoint,) = [json.loads(fence.body) for fence in fences("json", kind="checkpoint")]
    explained = words(section("docs/storage-formats.md", "## The checkpoint"))
    assert set(checkpoint) - {"schema_version", "pipeline", "source", "last_update_ts", "source_state"} <= explained


def test_every_stage_of_a_dead_letter_is_explained() -> None:
    heading, *explained = first_cells(section("docs/storage-formats.md", "## Dead letters"))
    assert heading == "stage"
    assert set(explained) == {str(stage) for stage in Stage}


def test_the_columns_of_provenance_are_explained() -> None:
    shown = re.findall(r'^            StructField\("(\w+)"', text("spark_job/table/columns.py"), re.MULTILINE)
    assert shown[0] == "source"
    assert list(first_cells(section("docs/storage-formats.md", "## Provenance"))) == shown


# --- Examples and links ---


CONFIGURATIONS = [f for f in fences("yaml", "yml") if "pipelines:" in f.body and f.kind != "broken"]


@pytest.mark.parametrize("fence", CONFIGURATIONS, ids=str)
def test_every_configuration_that_is_shown_is_valid(fence: Fence) -> None:
    reading = read_config(fence.body, {}, name=str(fence), folder="/data")
    assert [str(problem) for problem in reading.problems] == []


def links(document: Path) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)
    yield from re.findall(r"^\[[^\]]+\]: (\S+)$", prose, re.MULTILINE)
    referred = set(re.findall(r"\]\[([^\]]+)\]", prose))
    assert referred <= set(re.findall(r"^\[([^\]]+)\]: ", prose, re.MULTILINE))


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, only letters, digits, `-` and `_`, blanks as `-`."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in links(document):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


def test_the_readme_links_to_every_document() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert set(DOCUMENTS) - {ROOT / "README.md"} <= linked


def test_no_place_is_left_open() -> None:
    assert re.findall(r"\b(?:TODO|FIXME|XXX|TBD)\b", everything()) == []


def row_of(document: str, beginning: str) -> list[str]:
    """The cells of the first row that begins so."""
    line = next(line for line in text(document).splitlines() if line.startswith(f"| {beginning}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(text("README.md").splitlines()) <= 150


def test_the_figures_that_the_readme_quotes_of_the_proof_are_those_of_the_proof() -> None:
    lost, doubled, kills, races, compared = (
        row_of("docs/proof.md", name)[1]
        for name in ("**records lost", "**records doubled", "processes killed", "races", "records compared")
    )
    _, losses, doubles, *_ = row_of("README.md", "Blizzard |")
    assert f"**{lost}** of {compared} compared records lost" in losses
    assert f"**{doubled}** doubled, over {kills} kills and {races} races" in doubles


def test_the_figures_that_the_readme_quotes_of_the_benchmarks_are_those_of_the_benchmarks() -> None:
    measured = section("docs/performance.md", "## In short").splitlines()
    times = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in measured
        if "Delta, second run" in line or "the same, first run" in line
    ]
    assert len(times) == 4
    for what, ours, sparks, _, goal, verdict in times:
        assert f"| {what} | {ours} s | {sparks} s | {goal}, {verdict} |" in text("README.md")
    ratio = row_of("docs/performance.md", "throughput over S3")[1].split()[0]
    assert re.search(rf"reaches {re.escape(ratio)} of the throughput\s+of a local disk", text("README.md"))
