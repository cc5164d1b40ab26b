"""Whether the tables are in the Glue database where Athena and Spark look for them."""

from collections.abc import Sequence

from blizzard.config.model import Pipeline
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, ok, skipped, warning
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.open import open_store
from blizzard.table.glue_table import MISSING, is_same_location, registered_location, table_name

ADVICE = "docs/runbook.md#a-table-is-not-in-the-catalog says what it can be. Nothing of the ingestion depends on it"


def _catalog(stack: Stack) -> Finding:
    database = stack.parameters.get("GlueDatabase", "")
    if not database:
        return skipped("no Glue database is configured")
    if not _exists(stack, database):
        return warning(
            f"there is no Glue database {database}", expected="the one of the parameter GlueDatabase", advice=ADVICE
        )
    pipelines = [] if stack.config is None else [*stack.config.pipelines.values()]
    begun = [pipeline for pipeline in pipelines if _has_commit(stack, pipeline)]
    if wrong := [text for pipeline in begun if (text := _wrong(stack, database, pipeline))]:
        return warning("; ".join(wrong), expected=f"each table in the Glue database {database}", advice=ADVICE)
    if not begun:
        return skipped("no table has a commit yet, and none is registered before")
    return ok(f"{len(begun)} tables are in the Glue database {database}")


def _exists(stack: Stack, database: str) -> bool:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    try:
        stack.client("glue").get_database(Name=database)
    except ClientError as error:
        if error.response["Error"]["Code"] != MISSING:
            raise
        return False
    return True


def _has_commit(stack: Stack, pipeline: Pipeline) -> bool:
    """The sweeper registers no table before that."""
    return any(open_store(pipeline.table_uri, stack.settings, may_be_missing=True).list(LOG_FOLDER))


def _wrong(stack: Stack, database: str, pipeline: Pipeline) -> str | None:
    name = table_name(pipeline.name)
    found = registered_location(stack.client("glue"), database, name)
    if found is None:
        return f"the table {name} of pipeline {pipeline.name} is not registered"
    if is_same_location(found, pipeline.table_uri):
        return None
    return f"the table {name} has the location {found or 'none'}, expected {pipeline.table_uri} of its pipeline"


CHECKS: Sequence[Check[Stack]] = (Check("aws.catalog", _catalog, needs=("aws.stack",)),)
