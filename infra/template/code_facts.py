"""Facts about the code that the template has to agree with: variables it reads, metrics it emits, events it logs."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_lambda_powertools.shared import constants

_VARIABLE = re.compile(r"BLIZZARD_[A-Z_]+")
_METRIC = re.compile(r"(?:[A-Z][a-z]+)+")
_AS_DICT = re.compile(r"asdict\((\w+|.+\.\w+\(\))\)")
"""A field whose value is a dataclass: an argument, or what a method returned."""


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """By function, as its folder is called. `shared`: what all functions read; `framework`: what Powertools reads."""

    variables: Mapping[str, frozenset[str]]
    shared: frozenset[str]
    framework: frozenset[str]
    metrics: Mapping[str, frozenset[str]]
    job_events: Mapping[str, frozenset[str]]
    """Each event that the job logs, with the names of its fields; `secs.read` for a field of a nested object."""


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
        metrics={folder.name: _texts(folder.glob("report.py"), _METRIC) for folder in folders},
        job_events=_logged_events(list(_nodes((root / "spark_job").rglob("*.py")))),
    )


def _logged_events(nodes: list[ast.AST]) -> Mapping[str, frozenset[str]]:
    nested = _nested_fields(nodes)
    return {
        node.args[0].value: frozenset(name for keyword in node.keywords for name in _names(keyword, nested))
        for node in nodes
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def _names(keyword: ast.keyword, nested: Mapping[str, frozenset[str]]) -> Iterator[str]:
    if keyword.arg is not None:
        yield keyword.arg
        if as_dict := _AS_DICT.fullmatch(ast.unparse(keyword.value)):
            yield from (f"{keyword.arg}.{name}" for name in nested.get(as_dict[1].rpartition(".")[2], ()))


def _nested_fields(nodes: list[ast.AST]) -> Mapping[str, frozenset[str]]:
    """The fields of this code's classes, by the name of an argument of that class, and by `name()` of a method that
    returns it."""
    fields = {node.name: _annotated_names(node) for node in nodes if isinstance(node, ast.ClassDef)}
    found: dict[str, frozenset[str]] = {}
    annotated = [(node.arg, node.annotation) for node in nodes if isinstance(node, ast.arg)]
    annotated += [(f"{node.name}()", node.returns) for node in nodes if isinstance(node, ast.FunctionDef)]
    for name, annotation in annotated:
        if isinstance(annotation, ast.Name) and annotation.id in fields:
            found[name] = found.get(name, frozenset()) | fields[annotation.id]
    return found


def _annotated_names(node: ast.ClassDef) -> frozenset[str]:
    body = (line for line in node.body if isinstance(line, ast.AnnAssign))
    return frozenset(line.target.id for line in body if isinstance(line.target, ast.Name))


def _texts(files: Iterable[Path], pattern: re.Pattern[str]) -> frozenset[str]:
    """Every string constant that matches from end to end."""
    constants = (node.value for node in _nodes(files) if isinstance(node, ast.Constant))
    return frozenset(text for text in constants if isinstance(text, str) and pattern.fullmatch(text))


def _nodes(files: Iterable[Path]) -> Iterator[ast.AST]:
    return (node for file in files for node in ast.walk(ast.parse(file.read_text())))
