"""The code that is shipped, as trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = ("blizzard", "functions", "spark_job", "infra")


@cache
def trees() -> dict[str, ast.Module]:
    """By path."""
    files = (file for folder in SHIPPED for file in sorted((ROOT / folder).rglob("*.py")))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in files}


@cache
def calls() -> list[tuple[str, ast.Call, str]]:
    """Each call with its file and what is called, as it is written."""
    return [*_calls()]


def _calls() -> Iterator[tuple[str, ast.Call, str]]:
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield file, node, ast.unparse(node.func)


@cache
def imported() -> list[tuple[str, str]]:
    """Each module that is imported, after the file that does it."""
    return [*_imported()]


def _imported() -> Iterator[tuple[str, str]]:
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield file, node.module
