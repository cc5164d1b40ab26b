"""`blizzard validate`: all problems of a configuration at once."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from blizzard.config.load import LoadResult, read_config_file
from blizzard.config.model import Pipeline, Source
from blizzard.config.problems import Problem, dotted
from blizzard.environment import variables


def command(
    file: Annotated[str, typer.Argument(help="The configuration, such as pipelines.yaml.", metavar="FILE")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False,
) -> None:
    """Report every problem in a configuration.

    Exit code 0: the configuration is valid, and its sources are listed. 2: it has problems.
    """
    result = read_config_file(file, variables())
    typer.echo(json.dumps(_as_json(file, result), indent=2) if as_json else "\n".join(_lines(file, result)))
    raise typer.Exit(2 if result.problems else 0)


def _lines(file: str, result: LoadResult) -> list[str]:
    if result.config is None:
        count = len(result.problems)
        return [*map(str, result.problems), f"{file}: {count} problem{'s' * (count != 1)}"]
    return [_line(pipeline, source) for pipeline, source in result.config.sources()]


def _line(pipeline: Pipeline, source: Source) -> str:
    return f"{source.id}: {source.format} from {source.uri} ({source.pattern}) into {pipeline.table_uri}"


def _as_json(file: str, result: LoadResult) -> dict[str, Any]:
    sources = result.config.sources() if result.config else ()
    return {
        "file": file,
        "valid": result.config is not None,
        "problems": [_problem(problem) for problem in result.problems],
        "sources": [
            {
                "id": source.id,
                "uri": source.uri,
                "pattern": source.pattern,
                "format": source.format,
                "table_uri": pipeline.table_uri,
            }
            for pipeline, source in sources
        ],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {**asdict(problem), "path": dotted(problem.path), "message": str(problem)}
