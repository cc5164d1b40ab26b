"""What Spark says of the expressions that only it evaluates, for `blizzard validate --ask-spark`."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blizzard.config.document import read_document
from blizzard.config.expression_checks import constraints, derived
from blizzard.config.model import Config
from blizzard.config.problems import Problem, Problems
from blizzard.environment import variables
from blizzard.errors import BlizzardError

Key = tuple[str, str | None, str]
"""Of an expression: the names of its pipeline, of its source (None: it is a constraint), and its own."""


@dataclass(frozen=True, slots=True)
class AskedSpark:
    """`types`: as people write them. `fields`: of derived columns, in Spark's JSON, by the ids of their sources."""

    types: Mapping[Key, str] = field(default_factory=dict)
    fields: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def of_spark(config: Config) -> Iterator[Key]:
    """The expressions of which only Spark knows whether they are any. Not those that wait for `schema: infer`."""
    for pipeline in config.pipelines.values():
        for source in pipeline.sources.values():
            found = {} if source.infers_schema else derived(source)
            yield from ((pipeline.name, source.name, name) for name, one in found.items() if one.by == "spark")
        waits = any(source.infers_schema for source in pipeline.sources.values())
        found = {} if waits else constraints(pipeline)
        yield from ((pipeline.name, None, name) for name, one in found.items() if one.by == "spark")


def asked_spark(file: str) -> AskedSpark:
    """Starts Java. `file`: a configuration without problems. Raises BlizzardError if Spark does not start."""
    command_line = [sys.executable, "-m", "spark_job.expression_types", "--config", file]
    ended = subprocess.run(command_line, env=dict(variables()), capture_output=True, text=True, check=False)
    try:
        answers: list[dict[str, Any]] = json.loads(ended.stdout)
    except ValueError:
        raise BlizzardError(f"Spark cannot be asked: {ended.stderr.strip()[-2000:]}") from None
    fields: dict[str, list[Mapping[str, Any]]] = {}
    for one in answers:
        if one["field"] is not None:
            fields.setdefault(f"{one['pipeline']}:{one['source']}", []).append(one["field"])
    types = {_key(one): one["type"] for one in answers if one["type"] is not None}
    return AskedSpark(types, fields, _problems(file, answers))


def _key(answer: Mapping[str, Any]) -> Key:
    return answer["pipeline"], answer["source"], answer["name"]


def _problems(file: str, answers: Sequence[Mapping[str, Any]]) -> tuple[Problem, ...]:
    """Each with its line."""
    found = Problems(file, read_document(Path(file).read_text(encoding="utf-8"), file).lines)
    for one in answers:
        if one["problem"] is not None:
            pipeline, source, name = _key(one)
            place = ("constraints",) if source is None else ("sources", source, "derive")
            found.add(("pipelines", pipeline, *place, name), one["problem"])
    return found.sorted()
