"""`blizzard validate`: all problems of a configuration at once."""

import json
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from blizzard.cli.asked_spark import AskedSpark, Key, asked_spark, of_spark
from blizzard.cli.options import File
from blizzard.config import expression_checks
from blizzard.config.expression_checks import Evaluation
from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.left_to_spark import refused_by_engine, starts_spark
from blizzard.config.load import LoadResult, read_config_file
from blizzard.config.model import Config, Pipeline, Source
from blizzard.config.problems import Problem, dotted
from blizzard.environment import variables
from blizzard.errors import BlizzardError
from blizzard.setup.spark_here import why_no_spark

NEXT_RUN = "The next run, with its first new file or message:"
"""A run that finds nothing new does not look at the columns."""


def command(
    file: File,
    *,
    against_table: Annotated[
        bool, typer.Option("--against-table", help="Also say what the next run would change in the tables.")
    ] = False,
    ask_spark: Annotated[
        bool, typer.Option("--ask-spark", help="Start Spark, and let it check the expressions that only it evaluates.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False,
) -> None:
    """Report every problem in a configuration.

    Exit code 0: the configuration is valid, and its sources are listed. 1: with --against-table, a run would be
    refused. 2: it has problems.
    """
    result, asked = read_config_file(file, variables()), None
    if ask_spark and result.config is not None and any(of_spark(result.config)):
        asked = asked_spark(file)
        result = LoadResult(None, asked.problems) if asked.problems else result
    tables = _compared(file, asked) if against_table and not result.problems else None
    if as_json:
        found = _as_json(file, result, asked)
        typer.echo(json.dumps(found | ({} if tables is None else {"tables": tables}), indent=2))
    else:
        typer.echo("\n".join([*_lines(file, result, asked), *_table_lines(tables or [])]))
    raise typer.Exit(2 if result.problems else int(any(table["refused"] for table in tables or ())))


def _compared(file: str, asked: AskedSpark | None) -> list[dict[str, Any]]:
    """One for each source. The comparison needs packages of the job, which commands do not import."""
    command_line = [sys.executable, "-m", "spark_job.against_table", "--config", file]
    fields = json.dumps({} if asked is None else asked.fields)
    ended = subprocess.run(
        command_line, input=fields, env=dict(variables()), capture_output=True, text=True, check=False
    )
    try:
        tables: list[dict[str, Any]] = json.loads(ended.stdout)
    except ValueError:
        raise BlizzardError(f"the tables cannot be read: {ended.stderr.strip()[-2000:]}") from None
    return tables


def _table_lines(tables: Sequence[dict[str, Any]]) -> Iterator[str]:
    for table in tables:
        version = "does not exist yet" if table["version"] is None else f"is at version {table['version']}"
        nothing = [] if table["changes"] or table["refused"] else ["changes nothing"]
        yield f"{table['source']}: table {table['table_uri']} {version}. {NEXT_RUN}"
        yield from (f"  {line}" for line in (*table["changes"], *nothing))
        yield from (f"  is refused: {line}" for line in table["refused"])
        yield from (f"  ({line})" for line in table["notes"])


def _lines(file: str, result: LoadResult, asked: AskedSpark | None) -> list[str]:
    if result.config is None:
        count = len(result.problems)
        return [*map(str, result.problems), f"{file}: {count} problem{'s' * (count != 1)}"]
    lines = [_line(pipeline, source) for pipeline, source in result.config.sources()]
    types = {} if asked is None else asked.types
    for pipeline in result.config.pipelines.values():
        for source in pipeline.sources.values():
            found = expression_checks.derived(source).items()
            known = {name: types.get((pipeline.name, source.name, name)) for name, _ in found}
            late = source.infers_schema
            lines += [f"{source.id}: column {name}: {_evaluated(one, known[name], late=late)}" for name, one in found]
        for name, one in expression_checks.constraints(pipeline).items():
            kind = types.get((pipeline.name, None, name))
            late = any(source.infers_schema for source in pipeline.sources.values())
            lines.append(f"{pipeline.name}: constraint {name}: {_evaluated(one, kind, late=late)}")
    lines += _unchecked(file, result.config) if asked is None else ()
    return [*lines, *(f"{pipeline}: warning: {text}" for pipeline, text in _warnings(result))]


def _unchecked(file: str, config: Config) -> Iterator[str]:
    count = len([*of_spark(config)])
    if count:
        what = "1 expression by Spark was" if count == 1 else f"{count} expressions by Spark were"
        yield f"{what} not checked: `blizzard validate {file} --ask-spark` starts Spark and asks it"


def _warnings(result: LoadResult) -> Iterator[tuple[str, str]]:
    """Pipeline and text of each."""
    for pipeline in result.config.pipelines.values() if result.config else ():
        for what in refused_by_engine(pipeline):
            yield pipeline.name, f"`engine: {pipeline.engine}` refuses {what}: Spark is needed for it"
    yield from _warnings_here(result.config.pipelines.values() if result.config else ())


def _warnings_here(pipelines: Collection[Pipeline]) -> Iterator[tuple[str, str]]:
    """Of runs on this machine."""
    left = [(pipeline.name, what) for pipeline in pipelines for what in starts_spark(pipeline)]
    missing = why_no_spark(variables()) if left else None
    if missing is not None:
        for name, what in left:
            yield name, f"Spark is needed for {what}, and a run on this machine ends with an error then: {missing}"


def _evaluated(found: Evaluation, kind: str | None, *, late: bool) -> str:
    """`kind`: what Spark says of its type, if it was asked. `late`: whether it waits for the columns of an inferred
    schema, unless the fast reader knows what it needs."""
    if found.by == "reader":
        return f"{found.sql}: by the fast reader"
    checked = "checked when `schema: infer` has found the columns"
    if found.by is None:
        return f"{found.sql}: {checked}"
    then = f"; {checked}" if late else f"; its type is {kind}" if kind else ""
    return f"{found.sql}: by Spark, because it has {found.why_spark}{then}"


def _line(pipeline: Pipeline, source: Source) -> str:
    return f"{source.id}: {source.format} from {_place(source)} into {pipeline.table_uri}"


def _place(source: Source) -> str:
    kafka = source.kafka
    if kafka is None:
        return f"{source.uri} ({source.pattern})"
    if kafka.topics is None:
        return f"topics that match {kafka.topic_pattern} of {kafka.bootstrap_servers}"
    return f"topic{'s' * (len(kafka.topics) > 1)} {', '.join(kafka.topics)} of {kafka.bootstrap_servers}"


def _as_json(file: str, result: LoadResult, asked: AskedSpark | None) -> dict[str, Any]:
    types: Mapping[Key, str] = {} if asked is None else asked.types
    sources = result.config.sources() if result.config else ()
    return {
        "file": file,
        "valid": result.config is not None,
        "problems": [_problem(problem) for problem in result.problems],
        "warnings": [{"pipeline": pipeline, "text": text} for pipeline, text in _warnings(result)],
        "sources": [
            {
                "id": source.id,
                "uri": source.uri,
                "pattern": source.pattern,
                "kafka": None if source.kafka is None else _topics(source.kafka),
                "format": source.format,
                "table_uri": pipeline.table_uri,
                "derive": _expressions(expression_checks.derived(source), types, (pipeline.name, source.name)),
                "constraints": _expressions(expression_checks.constraints(pipeline), types, (pipeline.name, None)),
            }
            for pipeline, source in sources
        ],
    }


def _topics(kafka: KafkaOptions) -> dict[str, Any]:
    return {name: getattr(kafka, name) for name in ("bootstrap_servers", "topics", "topic_pattern")}


def _expressions(
    found: Mapping[str, Evaluation], types: Mapping[Key, str], place: tuple[str, str | None]
) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "expression": one.sql,
            "evaluated_by": one.by,
            "why_spark": one.why_spark,
            "type": types.get((*place, name)) if one.type is None else str(one.type),
            "checked": one.by == "reader" or (*place, name) in types,
        }
        for name, one in found.items()
    ]


def _problem(problem: Problem) -> dict[str, Any]:
    return {**asdict(problem), "path": dotted(problem.path), "message": str(problem)}
