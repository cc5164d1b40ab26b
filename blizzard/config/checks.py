"""What a field alone cannot show: columns against partitions, sources against each other, tables against sources.

Each check leaves out what rests on a value that is already known to be wrong, so that no problem is reported twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from blizzard.config import ddl
from blizzard.config.formats import FILE_FORMATS
from blizzard.config.model import Config, Pipeline, Source
from blizzard.config.problems import Path, Problems, did_you_mean, dotted

PROVENANCE = "_source"
RESERVED = "_blizzard"


def check(config: Config, problems: Problems) -> None:
    _check_emptiness(config, problems)
    columns: dict[str, Columns] = {}
    for _, source in config.sources():
        found = _columns(source, problems)
        if found is not None:
            columns[source.id] = found
    for pipeline in config.pipelines.values():
        _check_partition_by(pipeline, columns, problems)
    for pipelines in _by_table(config, problems).values():
        _check_agreement(pipelines, columns, problems)
        _check_state(pipelines, problems)
    _check_places(config, problems)


def _path(pipeline: str, *rest: str) -> Path:
    return ("pipelines", pipeline, *rest)


def _source_path(source: Source, *rest: str) -> Path:
    return _path(source.pipeline, "sources", source.name, *rest)


def _check_emptiness(config: Config, problems: Problems) -> None:
    if not config.pipelines and not problems.spoiled(("pipelines",)):
        problems.add(("pipelines",), "there is no pipeline; add one")
    for pipeline in config.pipelines.values():
        if not pipeline.sources and not problems.spoiled(place := _path(pipeline.name, "sources")):
            problems.add(place, "there is no source; add one, or leave the pipeline out")


# --- Columns ---

Columns = dict[str, str]
"""Names to types: what a source adds to its table."""


def _columns(source: Source, problems: Problems) -> Columns | None:
    """None when they cannot be known."""
    schema = _schema(source, problems)
    _check_partition_columns(source, schema or {}, problems)
    if schema is None or problems.spoiled(_source_path(source, "partition_columns")):
        return None
    return {**schema, **source.partition_columns}


def _schema(source: Source, problems: Problems) -> Columns | None:
    place = _source_path(source, "schema")
    if problems.spoiled(place, _source_path(source, "format")):
        return None
    file_format = FILE_FORMATS[source.format]
    if source.schema_ddl is not None and not file_format.requires_schema:
        given = f"found a schema beside `format: {source.format}`"
        problems.add(place, f"{given}, whose schema is always {file_format.fixed_schema}; leave it out")
        return None
    if source.schema_ddl is None and file_format.requires_schema:
        problems.add(place, "is missing; add the columns of a record, such as: id STRING NOT NULL, value DOUBLE")
        return None
    return _parsed(source.row_ddl, place, problems)


def _parsed(text: str, place: Path, problems: Problems) -> Columns | None:
    try:
        struct = ddl.parse(text)
    except ddl.DdlError as error:
        problems.add(place, f"Spark cannot use this schema: {error}")
        return None
    complaints = ddl.complaints(struct)
    complaints += [reason for column in struct.columns if (reason := _reserved(column.name))]
    for complaint in complaints:
        problems.add(place, complaint)
    return None if complaints else {column.name: str(column.type) for column in struct.columns}


def _reserved(column: str) -> str | None:
    if column.lower() == PROVENANCE:
        return f"column `{column}` is reserved: Blizzard writes there which file a row came from; rename it"
    if column.lower().startswith(RESERVED):
        return f"column `{column}`: names that begin with {RESERVED} are reserved; rename it"
    return None


def _check_partition_columns(source: Source, schema: Columns, problems: Problems) -> None:
    in_schema = {name.lower() for name in schema}
    seen: set[str] = set()
    for column in source.partition_columns:
        place = _source_path(source, "partition_columns", column)
        for complaint in _partition_complaints(column, in_schema, seen):
            problems.add(place, complaint)
        seen.add(column.lower())


def _partition_complaints(column: str, in_schema: set[str], seen: set[str]) -> Iterator[str]:
    yield from ddl.name_complaints(column, column)
    if column.startswith("_"):
        yield "begins with `_`; VACUUM would take its folders for hidden ones; choose another name"
    if column.lower() in in_schema:
        yield "is in `schema` too; a column comes from the folder or from the record: leave it out of one"
    if column.lower() in seen:
        yield "is there twice (case makes no difference); remove one"


def _check_partition_by(pipeline: Pipeline, columns: Mapping[str, Columns], problems: Problems) -> None:
    seen: set[str] = set()
    for i, column in enumerate(pipeline.partition_by):
        place: Path = (*_path(pipeline.name, "partition_by"), i)
        if problems.spoiled(place):
            continue
        if column.startswith("_"):
            problems.add(place, f"found {column!r}; a partition column cannot begin with `_`; rename the column")
        elif column.lower() in seen:
            problems.add(place, f"found {column!r} twice; remove one")
        else:
            for source in pipeline.sources.values():
                _check_has(source, column, columns.get(source.id), place, problems)
        seen.add(column.lower())


def _check_has(source: Source, column: str, columns: Columns | None, place: Path, problems: Problems) -> None:
    if columns is None:
        return
    kind = columns.get(column)
    if kind is None:
        problems.add(
            place,
            f"found {column!r}, which source {source.name} does not have; {did_you_mean(column, columns)}"
            f"expected one of {', '.join(columns)}; add it to the source's `schema` or `partition_columns`",
        )
    elif kind.startswith(("struct<", "array<", "map<")) or kind == "binary":
        problems.add(place, f"found {column!r} of type {kind}; a table is partitioned by simple values; choose another")


# --- Sources of one table ---


def _by_table(config: Config, problems: Problems) -> dict[str, list[Pipeline]]:
    tables: dict[str, list[Pipeline]] = {}
    for pipeline in config.pipelines.values():
        if not problems.spoiled(_path(pipeline.name, "table_uri")):
            tables.setdefault(pipeline.table_uri, []).append(pipeline)
    return tables


def _sources(pipelines: Iterable[Pipeline]) -> Iterator[Source]:
    return (source for pipeline in pipelines for source in pipeline.sources.values())


def _check_agreement(pipelines: list[Pipeline], columns: Mapping[str, Columns], problems: Problems) -> None:
    """What is written into one table has one type for each column, and one partitioning."""
    first = pipelines[0]
    for pipeline in pipelines[1:]:
        place = _path(pipeline.name, "partition_by")
        if pipeline.partition_by != first.partition_by and not problems.spoiled(place):
            problems.add(
                place,
                f"found {pipeline.partition_by}, but pipeline {first.name} partitions the same table by "
                f"{first.partition_by}; make them the same",
            )
    known: dict[str, tuple[str, str, Source]] = {}
    for source in _sources(pipelines):
        for name, kind in columns.get(source.id, {}).items():
            _, other_kind, other = known.setdefault(name.lower(), (name, kind, source))
            if kind != other_kind:
                field = "partition_columns" if name in source.partition_columns else "schema"
                problems.add(
                    _source_path(source, field),
                    f"column `{name}` is {kind} here and {other_kind} in source {other.id} of the same table; "
                    "give it one type, or another name",
                )


def _check_state(pipelines: list[Pipeline], problems: Problems) -> None:
    known: dict[str, Source] = {}
    for source in _sources(pipelines):
        other = known.setdefault(source.state_prefix.lower(), source)
        if other is not source:
            problems.add(
                _source_path(source),
                f"keeps its state in {source.state_prefix}, as {dotted(_source_path(other))} does, since their "
                "joined names are the same; rename one of them",
            )


# --- Places ---


@dataclass(frozen=True, slots=True)
class _Place:
    uri: str
    """Ends in `/`."""
    path: Path
    table: bool

    @property
    def name(self) -> str:
        return f"{'the table of ' if self.table else ''}{dotted(self.path[:-1])} ({self.uri})"


def _check_places(config: Config, problems: Problems) -> None:
    """Sorted, whatever lies inside a place follows it at once, so one pass finds each overlap."""
    around: list[_Place] = []
    for place in sorted(_places(config, problems), key=lambda place: (place.uri, place.table)):
        while around and not place.uri.startswith(around[-1].uri):
            around.pop()
        if around:
            problems.add(place.path, _overlap(around[-1], place))
        around.append(place)


def _places(config: Config, problems: Problems) -> Iterator[_Place]:
    for pipelines in _by_table(config, problems).values():
        yield _Place(f"{pipelines[0].table_uri}/", _path(pipelines[0].name, "table_uri"), table=True)
    for _, source in config.sources():
        path = _source_path(source, "uri")
        if not problems.spoiled(path):
            yield _Place(source.uri, path, table=False)


def _overlap(outer: _Place, inner: _Place) -> str:
    where = "is the same place as" if inner.uri == outer.uri else "lies inside"
    match outer.table, inner.table:
        case False, False:
            why = "a file would belong to both; give each source a place of its own, or make them one source"
        case False, True:
            why = "what is written into the table would be ingested again; move the table"
        case True, False:
            why = "files would land among the table's own, where VACUUM deletes them; move the source"
        case _:
            why = "VACUUM of the outer table would delete the inner one's files; move one of them"
    return f"found {inner.uri}, which {where} {outer.name}: {why}"
