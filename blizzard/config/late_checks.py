"""What is checked of a source with `schema: infer` once its columns are known: the same as of a written schema."""

from typing import Any

from blizzard.config.checks import check_columns, check_same_types
from blizzard.config.model import Pipeline, Source
from blizzard.config.problems import Problems, dotted
from blizzard.errors import ConfigError


def check_late_schema(pipeline: Pipeline, source: Source, schema: str, *, new: bool) -> None:
    """`schema`: of the records, in DDL. `new`: that the table will be made with it; else the table has it, and what it
    has besides may fit its constraints. Raises ConfigError."""
    known = source.model_copy(update={"schema_ddl": schema})
    update: dict[str, Any] = {"sources": {**(pipeline.sources if new else {}), source.name: known}}
    if not new:
        update |= {"partition_by": [], "cluster_by": [], "constraints": {}}
    pipeline = pipeline.model_copy(update=update)
    problems = Problems("", {})
    columns = check_columns([pipeline], problems)
    if new:
        check_same_types([pipeline], columns, problems)
    found = [f"{dotted(problem.path)}: {problem.text}" for problem in problems.sorted()]
    if found:
        begin = f"source {source.id} has `schema: infer`, and does not fit the columns that were found"
        end = "Nothing was committed. Correct the configuration, or write the `schema`"
        raise ConfigError([f"{begin}: {'; '.join(found)}. {end}"])
