"""What `docs/decisions.md` names exists."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.unit.documents import DEPLOYED, ROOT, anchors, python_files, text


@dataclass(frozen=True)
class Decision:
    title: str
    replaced: bool
    """The first line says that a newer decision replaces it, in whole or in part."""
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
    """The names in each Python file: functions, classes, arguments, variables, and members as `Class.member`."""
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
"""Names in an undo that are neither in the Python code nor in the template: SQL, a class path, settings of Spark."""


@pytest.mark.parametrize("decision", decisions(), ids=str)
def test_names_in_the_undo_of_a_decision_exist(decision: Decision) -> None:
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


def test_a_replaced_decision_links_to_a_newer_one() -> None:
    replaced = [decision for decision in decisions() if decision.replaced]
    assert len(replaced) >= 4
    for decision in replaced:
        said = decision.body.partition("\n\n")[0]
        assert set(re.findall(r"\]\(#([^)]+)\)", said)) & anchors(ROOT / "docs" / "decisions.md")
