"""Claims of docs/security.md that no other test covers: no code from data, no shell, harmless forged events. Each claim
of the page names an existing test."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.manifest.segments import Entry
from tests.unit.fakes import World
from tests.unit.shipped import ROOT, calls, imported, trees

PAGE = ROOT / "docs" / "security.md"


# --- The page ---


NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 50
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{test}"


def test_each_row_of_the_page_names_a_test_or_says_why_there_is_none() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    heads = [number for number, row in enumerate(rows) if re.fullmatch(r"\|(---\|)+", row)]
    promises = [row for number, row in enumerate(rows) if not {number, number + 1} & {*heads}]
    assert len(promises) > 30
    bare = [row for row in promises if not NAMED.search(row.split("|")[-2]) and "not tested: " not in row]
    assert bare == []


# --- No code, no template and no shell from data ---


def test_no_data_is_evaluated_as_code() -> None:
    forbidden = {"eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "importlib.__import__"}
    assert [(file, node.lineno) for file, node, name in calls() if name in forbidden] == []


def test_imported_module_names_come_from_code_not_data() -> None:
    """Our own commands; the packages that a probe looks for; and in the local Lambda the handler that the template
    names."""
    found = {file for file, _, name in calls() if name.rpartition(".")[2] == "import_module"}
    assert found == {
        "blizzard/cli/__init__.py",
        "infra/local/functions/bootstrap.py",
        "spark_job/probe/python_process.py",
    }


def test_no_reader_can_build_arbitrary_objects() -> None:
    builders = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib", "yaml"}
    found = {(file, module) for file, module in imported() if module.partition(".")[0] in builders}
    assert found == set()
    loaders = [ast.unparse(node) for _, node, name in calls() if name.rpartition(".")[2] == "YAML"]
    assert loaders == ["YAML(typ='safe', pure=True)"]


def test_no_data_is_used_as_a_format_template() -> None:
    """`str.format` with a template from data can read attributes of its arguments."""
    engines = {"jinja2", "mako", "chevron", "django"}
    assert [(file, module) for file, module in imported() if module.partition(".")[0] in engines] == []
    found = set()
    for file, node, name in calls():
        last = name.rpartition(".")[2]
        literal = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
        spark = [ast.unparse(arg) for arg in node.args] == ["'delta'"]
        if last in ("format_map", "vformat", "Template", "safe_substitute"):
            found.add(file)
        if last == "format" and isinstance(node.func, ast.Attribute) and not literal and not spark:
            found.add(file)
    assert found == {"infra/package/build.py"}, "names of files, from a table beside it"


NUMBERS = {
    "(os.getpid() * _STEP + next(_tries)) % NUMBER",
    "version % self.preparation.checkpoint_interval",
    "number % PARTITIONS",
    "at % size",
    "count % FILES_PER_REQUEST",
    "settled.sequence % FORGET_EVERY_COMMITS",
    "(through - before) % _MODULUS",
    "sum(checksums) % _MODULUS",
}
"""Modulo operations whose operands the code does not show to be numbers."""


def test_no_data_is_used_as_a_percent_format() -> None:
    found = {ast.unparse(node) for tree in trees().values() for node in ast.walk(tree) if is_percent(node)}
    assert found == NUMBERS


def is_percent(node: ast.AST) -> bool:
    """Whether this `%` may format data: its left side is no literal, its right side not certainly a number."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Mod)
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)):
        return False
    by, called = node.right, getattr(getattr(node.right, "func", None), "id", "")
    is_number = (isinstance(by, ast.Constant) and isinstance(by.value, int)) or called in ("len", "max", "min")
    return not (isinstance(node.left, ast.Constant) or is_number)


SHELLS = {"sh", "bash", "dash", "ksh", "zsh", "cmd", "cmd.exe"}
THROUGH_A_SHELL = re.compile(r"os\.(system|popen)|subprocess\.get(status)?output|pty\.spawn|.*create_subprocess_shell")
IN_PLACE_OF_SUBPROCESS = re.compile(r"os\.(exec|spawn|posix_spawn)\w*|asyncio\.create_subprocess_exec")
"""None is used. Extend these tests before using one."""


def test_no_command_goes_through_a_shell() -> None:
    found = [(file, node.lineno) for file, node, name in calls() if THROUGH_A_SHELL.fullmatch(name)]
    found += [(file, node.lineno) for file, node, name in calls() if IN_PLACE_OF_SUBPROCESS.fullmatch(name)]
    found += [(file, node.lineno) for file, node, _ in calls() if any(word.arg == "shell" for word in node.keywords)]
    assert found == []
    assert not {"commands", "pty", "pexpect"} & {module.partition(".")[0] for _, module in imported()}


def test_no_command_starts_a_shell() -> None:
    words = {
        (file, node.value)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [(file, word) for file, word in words if word.rpartition("/")[2] in SHELLS] == []


@pytest.mark.parametrize(
    "code", ["text % value", "row['format'] % (1, 2)", "template % {'a': 1}", "TEMPLATE % name", "text %= value"]
)
def test_a_percent_format_is_found(code: str) -> None:
    assert any(is_percent(node) for node in ast.walk(ast.parse(code)))


@pytest.mark.parametrize("code", ["'%s' % value", "number % 7", "number % max(1, count)", "x = number / 7"])
def test_a_modulo_of_numbers_is_not_taken_for_a_format(code: str) -> None:
    assert not any(is_percent(node) for node in ast.walk(ast.parse(code)))


def test_a_command_is_a_list_of_words() -> None:
    starts = {"run", "Popen", "call", "check_call", "check_output"}
    for file, node, name in calls():
        if name.startswith("subprocess.") and name.rpartition(".")[2] in starts:
            first = node.args[0] if node.args else None
            assert not isinstance(first, ast.Constant | ast.JoinedStr | ast.BinOp), f"{file}:{node.lineno}"


def test_tls_is_never_disabled() -> None:
    off = [
        (file, node.lineno)
        for file, node, _ in calls()
        for word in node.keywords
        if word.arg in ("verify", "use_ssl", "check_hostname") and getattr(word.value, "value", None) is False
    ]
    assert off == []


# --- Exit codes ---


@pytest.mark.parametrize(
    "text", ["", "pipelines: {'e v': {table_uri: s3://lake/events}}", "a: &a [*a]", "\0", "[" * 9_999]
)
def test_the_job_refuses_a_bad_configuration_with_2_and_lines_of_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pipelines\n{}.yaml"
    file.write_text(text)
    job = [sys.executable, "-m", "spark_job.main", "--config", str(file), "--once"]
    done = subprocess.run(job, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["event"] for line in lines} == {"configuration_wrong"}


# --- Forged events ---


FORGED = Entry("c.txt", 10, "f" * 32, 100_000.0)
"""For a file that does not exist yet."""


@pytest.mark.parametrize(
    "forged",
    [
        FORGED,
        replace(FORGED, event_ts=-6e10),
        replace(FORGED, event_ts=2e11),
        replace(FORGED, size=0),
        replace(FORGED, size=2**63 - 1),
        replace(FORGED, sequencer="F" * 1_000),
        replace(FORGED, version_id="another"),
        replace(FORGED, path="zzzz.txt"),
    ],
    ids=["plain", "long ago", "far ahead", "empty", "huge", "last", "version", "above all"],
)
@pytest.mark.parametrize("known", [False, True], ids=["before the file", "after the file"])
def test_a_forged_event_loses_and_doubles_nothing(forged: Entry, known: bool) -> None:
    world = World()
    world.arrive("a.txt", "a0")
    if known:
        world.arrive("c.txt", "c0", "c1")
    world.drain()
    world.deliver(forged)
    world.drain()
    if not known:
        world.arrive("c.txt", "c0", "c1")
        world.drain()
    world.settle()
    world.arrive("d.txt", "d0")
    world.settle()
    world.settle()
    assert world.files() == {"a.txt": ["a0"], "c.txt": ["c0", "c1"], "d.txt": ["d0"]}
    assert world.doubled() == []
    assert set(world.dead_files()) <= {"c.txt", "zzzz.txt"}


def test_an_event_of_a_missing_file_costs_one_get_and_one_dead_letter() -> None:
    world = World()
    world.arrive("a.txt", "a0")
    world.drain()
    world.deliver(FORGED)
    before = len(world.calls.names)
    world.drain()
    world.drain()
    about_it = [call.partition(" ")[0] for call in world.calls.names[before:] if "c.txt" in call]
    assert about_it == ["open", "put"]
    assert world.dead_files() == {"c.txt": "gone"}


def test_a_file_that_lands_after_its_forged_event_is_ingested() -> None:
    world = World()
    world.deliver(FORGED)
    world.drain()
    event = world.put("c.txt", "c0")
    world.sweep()
    world.drain()
    assert world.files() == {}
    world.deliver(event)
    world.drain()
    assert world.files() == {"c.txt": ["c0"]}


def test_a_file_that_lands_after_its_forged_event_and_whose_own_is_lost_is_found_by_the_next_late_sweep() -> None:
    world = World()
    world.deliver(FORGED)
    world.drain()
    world.put("c.txt", "c0")
    world.late_sweep()
    world.drain()
    assert world.files() == {"c.txt": ["c0"]}


# --- The template ---


def resources() -> dict[str, dict[str, Any]]:
    from infra.template.translate import (
        parse,
    )  # SAM's translator takes a second to import, and most tests here do not need it

    found: dict[str, dict[str, Any]] = parse((ROOT / "template.yaml").read_text())["Resources"]
    return found


LISTENING = re.compile(r"ApiGateway|LoadBalanc|::Url$|EC2::|ECS::|CloudFront|AppRunner|Serverless::(Http)?Api")


def test_nothing_deployed_listens_on_a_port() -> None:
    servers = {"http.server", "socketserver", "wsgiref", "xmlrpc", "flask", "aiohttp", "uvicorn", "fastapi"}
    deployed = [(file, module) for file, module in imported() if not file.startswith("infra/")]
    assert [(file, module) for file, module in deployed if {module, module.partition(".")[0]} & servers] == []
    assert [file for file, _, name in calls() if name.endswith(".listen") and not file.startswith("infra/")] == []
    assert [name for name, resource in resources().items() if LISTENING.search(resource["Type"])] == []
    functions = [resource["Properties"] for resource in resources().values() if resource["Type"].endswith("::Function")]
    assert len(functions) == 4
    assert not [function for function in functions if "FunctionUrlConfig" in function]
    events = [event["Type"] for function in functions for event in function.get("Events", {}).values()]
    assert not {"Api", "HttpApi", "ALB"} & {*events}


def test_the_templates_landing_bucket_keeps_old_versions_for_thirty_days() -> None:
    bucket = resources()["LandingBucket"]["Properties"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["NoncurrentVersionExpiration"]) == ("Enabled", {"NoncurrentDays": 30})
