"""Every dependency has one version and its hashes, and nothing is installed without them."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from tests.unit.shipped import ROOT, SHIPPED, trees

PAGE = ROOT / "docs" / "security.md"
JARS = [ROOT / "blizzard/setup/jars.lock", *(ROOT / "infra/tools/jars").glob("*.lock")]
LOCKS = sorted(
    {
        file.relative_to(ROOT).as_posix()
        for pattern in ("*.lock", "requirements*.txt")
        for file in chain(ROOT.glob(pattern), *((ROOT / folder).rglob(pattern) for folder in (*SHIPPED, "benchmarks")))
        if file not in JARS
    }
)


def test_the_documented_locks_exist() -> None:
    named = re.search(r"in (`requirements\.lock`.*) and the locks of\s+`infra/tools`", PAGE.read_text())
    assert named is not None
    tools = {f"infra/tools/{file.stem}.lock" for file in (ROOT / "infra/tools").glob("*.in")}
    assert {*LOCKS} == {*re.findall(r"`([^`]+)`", named[1]), *tools}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_has_one_version_and_its_hashes(lock: str) -> None:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / lock).read_text(), flags=re.MULTILINE)
    entries = [entry for entry in re.split(r"(?<!\\)\n", text) if entry.strip()]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9][a-z0-9._-]*==[^\s;*]+ ", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry[:80]


@pytest.mark.parametrize("lock", JARS, ids=lambda lock: lock.stem)
def test_every_jar_has_its_hash(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.match(r"[0-9a-f]{64}  \S+\.jar  [\w.-]+:[\w.-]+:[\w.-]+", line) for line in lines)


INSTALLING = {"infra/setup/venv.py", "infra/package/wheels.py", "infra/tools/environments.py"}


def words_of(node: ast.AST, tree: ast.Module) -> set[str]:
    """The string elements of a list or arguments of a call, including those of lists that functions of the same module
    return."""
    elements = node.elts if isinstance(node, ast.List) else node.args if isinstance(node, ast.Call) else []
    found = {e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)}
    for element in elements:
        if isinstance(element, ast.Starred) and isinstance(element.value, ast.Call):
            called = ast.unparse(element.value.func).rpartition(".")[2]
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef) and function.name == called:
                    returns = (part.value for part in ast.walk(function) if isinstance(part, ast.Return))
                    found |= {word for value in returns if value is not None for word in words_of(value, tree)}
    return found


def unhashed(tree: ast.Module) -> list[set[str]]:
    """The words of each pip command that installs a list of packages without requiring hashes, or a project with its
    dependencies."""
    commands = [words_of(node, tree) for node in ast.walk(tree) if isinstance(node, ast.List | ast.Call)]
    lists = [words for words in commands if {"-r", "--requirement"} & words and "--require-hashes" not in words]
    projects = [words for words in commands if {"-e", "--editable"} & words and "--no-deps" not in words]
    return lists + projects


def test_packages_are_installed_only_with_hashes() -> None:
    commands = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.List) and "pip" in (words := words_of(node, tree)) and words & {"install", "download"}
    }
    assert commands == INSTALLING
    for file in INSTALLING:
        assert any("--require-hashes" in words_of(node, trees()[file]) for node in ast.walk(trees()[file])), file
        assert unhashed(trees()[file]) == [], file


@pytest.mark.parametrize(
    "code",
    ["run(['pip', 'install', '-r', lock])", "pip('--no-deps', '--requirement', lock)", "pip('-e', '.')"],
)
def test_an_installation_without_hashes_is_found(code: str) -> None:
    """Even next to an installation with hashes."""
    assert unhashed(ast.parse(f"{code}\npip('--require-hashes', '-r', lock)")) != []
