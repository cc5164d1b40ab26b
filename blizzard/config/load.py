"""From the text of `pipelines.yaml` to a Config, or to everything that is wrong with it."""

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

_ROUNDS = 5
"""Repairs after which a broken configuration is given up; taking out, then putting in, needs three."""

_STAND_INS: Mapping[str, Any] = {
    "pipelines": {},
    "sources": {},
    "table_uri": "s3://stand-in/table",
    "uri": "s3://stand-in/source/",
    "prefix_template": "%Y",
    "lookback": 1,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A configuration, or what is wrong with it: `config` is None exactly when there are problems."""

    config: Config | None
    problems: tuple[Problem, ...] = ()


def load_config(path: str | FilePath, environ: Mapping[str, str]) -> Config:
    """From a local file; relative paths in it start from its folder. Raises ConfigError naming every problem."""
    return _config_of(read_config_file(path, environ))


def parse_config(
    text: str, environ: Mapping[str, str], *, name: str = "pipelines.yaml", folder: str | None = None
) -> Config:
    """From text. `name` is for messages; `folder` (absolute) is where relative paths start, None allows none.

    Raises ConfigError naming every problem.
    """
    return _config_of(read_config(text, environ, name=name, folder=folder))


def _config_of(reading: Reading) -> Config:
    if reading.config is None:
        raise ConfigError([str(problem) for problem in reading.problems])
    return reading.config


def read_config_file(path: str | FilePath, environ: Mapping[str, str]) -> Reading:
    """As load_config, but problems are returned, not raised."""
    file = FilePath(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; expected the path of a configuration file"
        return Reading(None, (Problem(str(path), None, (), reason),))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Reading(None, (Problem(str(path), line, (), "found a byte that is not UTF-8; save the file as UTF-8"),))
    return read_config(text, environ, name=str(path), folder=str(file.absolute().parent))


def read_config(text: str, environ: Mapping[str, str], *, name: str, folder: str | None) -> Reading:
    """As parse_config, but problems are returned, not raised."""
    try:
        document = read_document(text, name)
    except UnreadableError as error:
        return Reading(None, (Problem(name, error.line, (), error.text),))
    problems = Problems(name, document.lines)
    for known in document.problems:
        problems.add(known.path, known.text)
    config = _validated(document, environ, problems, folder)
    if config is not None:
        check(config, problems)
    found = problems.sorted()
    return Reading(None if found else config, found)


def _validated(document: Document, environ: Mapping[str, str], problems: Problems, folder: str | None) -> Config | None:
    """The configuration with what is wrong taken out, so that the other checks can say what they find as well.

    What the first round finds is reported; later ones find only what the repairs left behind.
    """
    value = interpolate_all(document.value, environ, problems)
    unresolved = problems.paths()
    for attempt in range(_ROUNDS):
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
    """Put in what is missing, take out what is wrong."""
    *way, last = path_of(fault) or ("",)
    for part in way:
        value = _item(value, part)
    if isinstance(value, dict):  # what lay in it may be gone already, with its name
        if fault["type"] == "missing":
            value[last] = _STAND_INS[str(last)]
        else:
            value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int):
        value[last] = ""  # its place is kept, for the lines of those behind it
