"""What the code says about its surroundings: variables it reads, metrics it emits, events it logs."""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_lambda_powertools.shared import constants

_VARIABLE = re.compile(r"BLIZZARD_[A-Z_]+")
_METRIC = re.compile(r"(?:[A-Z][a-z]+)+")


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """By function, as its folder is called. `shared`: what all can read; `framework`: what Powertools does."""

    variables: Mapping[str, frozenset[str]]
    shared: frozenset[str]
    framework: frozenset[str]
    metrics: Mapping[str, frozenset[str]]
    job_events: Mapping[str, frozenset[str]]
    """Each event that the job logs, with the names of its fields."""


def read_code(root: Path) -> CodeFacts:
    """`root`: the project's folder."""
    functions = root / "functions"
    folders = sorted(file.parent for file in functions.glob("*/handler.py"))
    return CodeFacts(
        variables={folder.name: _texts(folder.rglob("*.py"), _VARIABLE) for folder in folders},
        shared=_texts(functions.glob("*.py"), _VARIABLE),
        framework=frozenset(
            value for value in vars(constants).values() if isinstance(value, str) and value.startswith("POWERTOOLS_")
        ),
        metrics={folder.name: _texts([folder / "handler.py"], _METRIC) for folder in folders},
        job_events=_logged((root / "spark_job").rglob("*.py")),
    )


def _logged(files: Iterable[Path]) -> Mapping[str, frozenset[str]]:
    calls = (node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return {
        call.args[0].value: frozenset(keyword.arg for keyword in call.keywords if keyword.arg)
        for call in calls
        if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def _texts(files: Iterable[Path], pattern: re.Pattern[str]) -> frozenset[str]:
    """Every text constant that matches from end to end."""
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(text for text in texts if pattern.fullmatch(text))
