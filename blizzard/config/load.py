"""Reads `pipelines.yaml` into a Config, or into a list of all its problems."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from blizzard.config.checks import check
from blizzard.config.document import MAX_BYTES, Document, UnreadableError, read_document
from blizzard.config.explain import explain, path_of
from blizzard.config.interpolate import interpolate_all
from blizzard.config.model import Config
from blizzard.config.problems import Problem, Problems
from blizzard.errors import ConfigError

_MAX_REPAIRS = 5
"""Rounds of repair. Removing wrong values and then adding missing ones takes three."""

_PLACEHOLDERS: Mapping[str, Any] = {
    "pipelines": {},
    "sources": {},
    "table_uri": "s3://placeholder/table",
    "bootstrap_servers": "placeholder:9092",
    "url": "http://placeholder",
    "pattern": "**",
    "prefix_template": "%Y",
    "lookback": 1,
}


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A configuration, or its problems: `config` is None exactly when there are problems."""

    config: Config | None
    problems: tuple[Problem, ...] = ()


def load_config(path: str | FilePath, environ: Mapping[str, str]) -> Config:
    """Reads a local file. Relative paths in it start from its folder. Raises ConfigError, which lists every problem."""
    return _config_or_raise(read_config_file(path, environ))


def parse_config(
    text: str, environ: Mapping[str, str], *, name: str = "pipelines.yaml", folder: str | None = None
) -> Config:
    """`name` is for messages. Relative paths start from `folder` (absolute); None forbids them.

    Raises ConfigError, which lists every problem.
    """
    return _config_or_raise(read_config(text, environ, name=name, folder=folder))


def _config_or_raise(result: LoadResult) -> Config:
    if result.config is None:
        raise ConfigError([str(problem) for problem in result.problems])
    return result.config


def read_config_file(path: str | FilePath, environ: Mapping[str, str]) -> LoadResult:
    """Like load_config, but returns the problems."""
    file = FilePath(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; expected the path of a configuration file"
        return LoadResult(None, (Problem(str(path), None, (), reason),))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return LoadResult(
            None, (Problem(str(path), line, (), "found a byte that is not UTF-8; save the file as UTF-8"),)
        )
    return read_config(text, environ, name=str(path), folder=str(file.absolute().parent))


def read_config(text: str, environ: Mapping[str, str], *, name: str, folder: str | None) -> LoadResult:
    """Like parse_config, but returns the problems."""
    try:
        document = read_document(text, name)
    except UnreadableError as error:
        return LoadResult(None, (Problem(name, error.line, (), error.text),))
    problems = Problems(name, document.lines)
    for problem in document.problems:
        problems.add(problem.path, problem.text)
    config = _validate(document, environ, problems, folder)
    if config is not None:
        check(config, problems)
    found = problems.sorted()
    return LoadResult(None if found else config, found)


def _validate(document: Document, environ: Mapping[str, str], problems: Problems, folder: str | None) -> Config | None:
    """The configuration without its wrong values, so that the other checks can report their problems too.

    Only the problems of the first round are reported, since later ones may be caused by the repairs. None if the value
    cannot be repaired.
    """
    value = interpolate_all(document.value, environ, problems)
    unresolved = problems.paths()
    for attempt in range(_MAX_REPAIRS):
        try:
            return Config.model_validate(value, context={"folder": folder})
        except ValidationError as error:
            faults = error.errors(include_url=False)
        for fault in faults:
            if attempt == 0 and path_of(fault) not in unresolved:
                problems.add(path_of(fault), explain(fault))
            _repair(value, fault)
    return None


def _item(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) else None


def _repair(value: Any, fault: ErrorDetails) -> None:
    """Add what is missing, remove what is wrong."""
    *parents, last = path_of(fault) or ("",)
    for part in parents:
        value = _item(value, part)
    if isinstance(value, dict):  # the parent may have been removed already
        if fault["type"] == "missing":
            value[last] = _PLACEHOLDERS[str(last)]
        else:
            value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int):
        value[last] = ""  # so that later items keep their index, which gives their line number
