"""What is known of an engine before it is made, and that nobody else asks which one it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.config.engine_name import EngineName

ROOT = Path(__file__).parents[2]
PROGRAM = ("blizzard", "spark_job", "functions", "infra", "benchmarks")
SEAM = {"blizzard/config/engine_name.py", "spark_job/engines/choose.py"}


def test_only_spark_needs_spark_and_only_the_local_engine_has_none() -> None:
    assert {name for name in EngineName if name.needs_spark} == {EngineName.SPARK}
    assert {name for name in EngineName if not name.has_spark} == {EngineName.LOCAL}


def asks_for_an_engine(text: str) -> Iterator[int]:
    """Lines that compare something with the name of an engine."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        if any(_is_member(part) for part in parts) or (
            any("engine" in ast.unparse(part) for part in parts) and any(_is_name(part) for part in parts)
        ):
            yield node.lineno


def _is_member(part: ast.expr) -> bool:
    return isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "EngineName"


def _is_name(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value in [*EngineName]


@pytest.mark.parametrize(
    "text",
    [
        "engine == 'spark'",
        "'local' != pipeline.engine",
        "x is EngineName.LOCAL",
        "EngineName.SPARK in wanted",
        "match engine:\n    case EngineName.AUTO:\n        pass",
    ],
)
def test_a_comparison_with_the_name_of_an_engine_is_seen(text: str) -> None:
    assert [*asks_for_an_engine(text)]


def test_nothing_beside_the_seam_compares_with_the_name_of_an_engine() -> None:
    files = [file for folder in PROGRAM for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 100
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        if str(file.relative_to(ROOT)) not in SEAM
        for line in asks_for_an_engine(file.read_text())
    }
    assert found == set()


BEFORE_THE_JOB = ("blizzard/cli/", "blizzard/config/", "blizzard/doctor/", "spark_job/against_table/")
"""Commands and checks that refuse, or say beforehand, what no engine of that name can do."""


def test_the_job_itself_does_not_ask_what_its_engine_can_do() -> None:
    files = {
        f"{file.relative_to(ROOT)}": file
        for folder in ("blizzard", "spark_job", "functions")
        for file in (ROOT / folder).rglob("*.py")
    }
    asking = {
        name for name, file in files.items() if re.search(r"\.(has_spark|needs_spark)\b(?! import)", file.read_text())
    }
    assert len(asking) > 4
    assert [name for name in asking if not name.startswith(BEFORE_THE_JOB)] == []
