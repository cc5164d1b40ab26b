"""docs/architecture.md against the tree: every path and name on the page exists, and no room is missing."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = ("blizzard", "functions", "spark_job", "spark_job/formats", "spark_job/loop", "infra", "infra/local")
"""Folders whose folders with Python files are rooms of their own."""
STARTS = ("blizzard/", "functions/", "spark_job/", "infra/", "tests/", "docs/", "events/", "examples/", "benchmarks/")
ANSWERS = (
    "gzip",
    "dead letter",
    "Txn version",
    "lost race",
    "number of a segment",
    "start a run",
    "alarm",
)
"""What a newcomer must find on the page."""


def lines() -> Iterator[tuple[int, str]]:
    return enumerate(PAGE.read_text().splitlines(), 1)


def paths_in(line: str) -> list[str]:
    words = re.findall(r"[\w./*{},-]+", line)
    return [word.rstrip(".,") for word in words if word.startswith(STARTS) or word in {"template.yaml", "Makefile"}]


@cache
def names_in(file: Path) -> frozenset[str]:
    """Functions, classes, methods (also as `Class.method`) and constants of a module."""
    found: set[str] = set()
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def test_every_path_on_the_page_exists() -> None:
    missing = [
        f"docs/architecture.md:{number}: {path} is not there"
        for number, line in lines()
        for path in paths_in(line)
        if "<" not in path and not [*ROOT.glob(path)]
    ]
    assert missing == []


def test_every_name_on_the_page_is_defined_in_its_file() -> None:
    """`name` in `file.py`, in tables and text alike."""
    found, wrong = 0, []
    for number, line in lines():
        for name, file in re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", line):
            found += 1
            if not (ROOT / file).exists() or name not in names_in(ROOT / file):
                wrong.append(f"docs/architecture.md:{number}: {file} defines no {name}")
    assert wrong == []
    assert found >= 30


@pytest.mark.parametrize("parent", ROOMS)
def test_every_room_is_on_the_page(parent: str) -> None:
    rooms = {
        f"{parent}/{folder.name}/"
        for folder in (ROOT / parent).iterdir()
        if folder.is_dir() and any(folder.glob("*.py")) and folder.name != "__pycache__"
    }
    named = {path for _, line in lines() for path in paths_in(line)}
    assert sorted(room for room in rooms if room not in named) == []


def test_each_step_of_the_picture_names_its_file() -> None:
    picture = PAGE.read_text().partition("```\n")[2].partition("```")[0]
    steps = [line for line in picture.splitlines() if re.match(r"\s*\d+\.", line)]
    assert len(steps) >= 12
    assert [step for step in steps if not paths_in(step)] == []


@pytest.mark.parametrize("subject", ANSWERS)
def test_a_newcomer_finds(subject: str) -> None:
    assert [line for _, line in lines() if subject in line.lower() or subject in line if paths_in(line)]
