"""`docs/architecture.md` names only files, functions and folders that exist, and has a row for every package folder."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("blizzard", "spark_job", "functions", "infra", "benchmarks")
TOP_FOLDERS = "blizzard|spark_job|functions|infra|tests|benchmarks|docs|events|examples"
PATH = re.compile(rf"(?<![\w/.])(?:(?:{TOP_FOLDERS})/[\w./-]*|template\.yaml|pyproject\.toml)")
NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
NAME_IN_FILE = re.compile(rf"`({NAME})` in `?(?:\n)?`?([\w./]+\.py)`")
STEP = re.compile(r"(?:\d+ +| {3,})(?P<what>\S.*?)  *(?P<file>(?<= )\S+\.py) +(?P<names>\S.*)")
QUESTIONS = {
    "gzip, where it is opened",
    "bad line becomes a dead letter",
    "Txn version, where it is compared",
    "lost race, where it is noticed",
    "segment gets its number",
    "dispatcher decides to start a run",
    "alarm, where it is defined",
}


def prose() -> str:
    """The page without its diagrams; line numbers stay."""
    return re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), PAGE.read_text(), flags=re.M | re.S)


def diagram() -> Iterator[tuple[int, str]]:
    """Each line of the first diagram with its number on the page."""
    text = PAGE.read_text()
    start = text.index("\n```\n") + len("\n```\n")
    first = text.count("\n", 0, start) + 1
    return enumerate(text[start : text.index("\n```\n", start)].splitlines(), first)


def named_paths() -> list[tuple[int, str]]:
    lines = enumerate(PAGE.read_text().splitlines(), 1)
    return [(number, path.rstrip(".")) for number, line in lines for path in PATH.findall(line)]


def named_definitions() -> list[tuple[int, str, str]]:
    """Line, function or `Class.method`, and the file that must define it."""
    text = prose()
    found = [(text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in NAME_IN_FILE.finditer(text)]
    for number, line in diagram():
        if step := STEP.fullmatch(line):
            names = step["names"].partition(":")[0].split(", ")
            found += [(number, name, step["file"]) for name in names]
    return found


@cache
def definitions_in(file: str) -> frozenset[str]:
    """Functions, classes, variables of the module, and members as `Class.member`; empty where there is no such file."""
    path = ROOT / file
    return frozenset(_definitions(ast.parse(path.read_text()), "")) if path.is_file() else frozenset()


def _definitions(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _definitions(statement, f"{name}.")
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield prefix + name


def package_folders() -> set[str]:
    """Every package folder, as the page spells it."""
    inits = (init for top in PACKAGES for init in (ROOT / top).rglob("__init__.py"))
    return {f"{init.parent.relative_to(ROOT).as_posix()}/" for init in inits}


def listed_folders() -> set[str]:
    section = PAGE.read_text().partition("\n## Folders\n")[2]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {folder for cell in cells for folder in re.findall(r"`([^`]+/)`", cell)}


def test_every_path_on_the_page_exists() -> None:
    assert len(named_paths()) > 60
    gone = [
        f"architecture.md:{line}: no {path} in the tree" for line, path in named_paths() if not (ROOT / path).exists()
    ]
    assert not gone, "\n".join(gone)


def test_every_name_is_defined_in_the_file_next_to_it() -> None:
    assert len(named_definitions()) > 40
    gone = [
        f"architecture.md:{line}: {file} defines no {name}"
        for line, name, file in named_definitions()
        if name not in definitions_in(file)
    ]
    assert not gone, "\n".join(gone)


def test_each_step_of_the_diagram_names_a_file_and_a_function() -> None:
    wrong = [
        f"architecture.md:{number}: no file and name in {line!r}"
        for number, line in diagram()
        if not STEP.fullmatch(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_on_the_page_and_every_folder_on_the_page_exists() -> None:
    missing = [f"architecture.md: no row for {folder}" for folder in sorted(package_folders() - listed_folders())]
    gone = [
        f"architecture.md lists {folder}, which is gone"
        for folder in sorted(listed_folders())
        if not (ROOT / folder).is_dir()
    ]
    assert not missing + gone, "\n".join(missing + gone)


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_each_common_question_has_a_row_with_a_file(question: str) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {question} |")]
    assert PATH.search(row)


def test_the_contract_of_the_loop_names_each_of_its_modules() -> None:
    """import-linter has no pattern for "all but one folder"."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["name"] == "The loop drives any kind of source, not only files"]
    modules = {f"spark_job.loop.{file.stem}" for file in (ROOT / "spark_job/loop").glob("*.py")}
    assert {*contract["source_modules"]} == modules - {"spark_job.loop.__init__"}
