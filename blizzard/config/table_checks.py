"""Checks of what a pipeline wants of its table: clustering and properties."""

from collections.abc import Iterator, Mapping

from blizzard.config.model import Pipeline
from blizzard.config.problems import Path, Problems, did_you_mean

CLUSTERED_TYPES = frozenset(
    {"tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp", "timestamp_ntz"}
)
_OWN_KEYS = {"delta.constraints.": "constraints", "delta.feature.clustering": "cluster_by"}
_RETENTION = "delta.settransactionretentionduration"


def check_table(pipeline: Pipeline, columns: Mapping[str, Mapping[str, str]], problems: Problems) -> None:
    """`columns`: those of each source without problems, by its id, with their types."""
    root: Path = ("pipelines", pipeline.name)
    if not problems.has((*root, "cluster_by")):
        for index, problem in _cluster_problems(pipeline, columns):
            problems.add((*root, "cluster_by") if index is None else (*root, "cluster_by", index), problem)
    if not problems.has((*root, "table_properties")):
        for name in pipeline.table_properties:
            for problem in _property_problems(name):
                problems.add((*root, "table_properties", name), problem)


def _cluster_problems(pipeline: Pipeline, columns: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[int | None, str]]:
    if pipeline.cluster_by and pipeline.partition_by:
        yield None, "a table is either partitioned or clustered; remove `cluster_by` or `partition_by`"
    for index, column in enumerate(pipeline.cluster_by):
        if column.lower() in (other.lower() for other in pipeline.cluster_by[:index]):
            yield index, f"found {column!r} twice; remove one"
        for source in pipeline.sources.values():
            found = columns.get(source.id)
            if found is None:
                continue
            kind = found.get(column)
            if kind is None:
                hint = did_you_mean(column, found)
                yield index, f"found {column!r}, which source {source.name} does not have; {hint}add it there"
            elif kind not in CLUSTERED_TYPES and not kind.startswith(("decimal(", "of a type")):
                yield index, f"found {column!r} of type {kind}, of which Delta keeps no statistics; choose another"


def _property_problems(name: str) -> Iterator[str]:
    if name.lower() == _RETENTION:
        yield "lets Delta expire the Txns that tell which files are ingested, so rows would be doubled; remove it"
    for prefix, key in _OWN_KEYS.items():
        if name.lower().startswith(prefix):
            yield f"found a property that `{key}` of the pipeline sets; use that"
