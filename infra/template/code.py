"""What the code says about its surroundings: variables it reads, metrics it emits, events it logs."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
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
    """Each event that the job logs, with the names of its fields; `secs.read` for what is in an object of times."""


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
        metrics={folder.name: _texts([folder / "report.py"], _METRIC) for folder in folders},
        job_events=_logged(
            (root / "spark_job").rglob("*.py"), _attributes(root / "spark_job" / "ports" / "stopwatch.py", "TurnSecs")
        ),
    )


def _logged(files: Iterable[Path], timed: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """`timed`: what is in an object that a call gives as `asdict(…secs())`."""
    calls = (node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return {
        call.args[0].value: frozenset(name for keyword in call.keywords for name in _names(keyword, timed))
        for call in calls
        if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    }


def _names(keyword: ast.keyword, timed: Iterable[str]) -> Iterator[str]:
    if keyword.arg is not None:
        yield keyword.arg
        if re.fullmatch(r"asdict\(.+\.secs\(\)\)", ast.unparse(keyword.value)):
            yield from (f"{keyword.arg}.{name}" for name in timed)


def _attributes(file: Path, name: str) -> frozenset[str]:
    """The annotated names of a class."""
    classes = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef))
    body = (line for found in classes if found.name == name for line in found.body if isinstance(line, ast.AnnAssign))
    return frozenset(line.target.id for line in body if isinstance(line.target, ast.Name))


def _texts(files: Iterable[Path], pattern: re.Pattern[str]) -> frozenset[str]:
    """Every text constant that matches from end to end."""
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(text for text in texts if pattern.fullmatch(text))
