"""Checks that need more than one field: columns and partitions, sources of one table, locations that overlap.

A check skips every value that already has a problem, so that no problem is reported twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from blizzard.config import ddl, expression_checks
from blizzard.config.compressions import AUTO
from blizzard.config.expressions.tokens import names_in, refusal_of
from blizzard.config.formats import FILE_FORMATS, FORMATS, MIXED
from blizzard.config.kafka_checks import check_kind, check_taken_over_once
from blizzard.config.model import Config, HowToRead, Pipeline, Source
from blizzard.config.problems import Path, Problems, did_you_mean, dotted
from blizzard.config.provenance import PROVENANCE, RESERVED
from blizzard.config.schema_limits import FormatLimits, name_problems, storage_problems
from blizzard.config.schema_rule_checks import check_schema_rules
from blizzard.config.schema_rules import RESCUED
from blizzard.config.table_checks import check_table

BY_SPARK = "of a type that Spark finds out"
TABLE_IN_TABLE = "VACUUM of the outer table would delete the inner table's files"


def check(config: Config, problems: Problems) -> None:
    _check_not_empty(config, problems)
    for _, source in config.sources():
        check_kind(source, _source_path(source), problems)
        _check_format_options(source, problems)
        _check_inventory(source, problems)
    columns = check_columns(config.pipelines.values(), problems)
    for pipelines in _pipelines_by_table(config, problems).values():
        _check_same_partitioning(pipelines, problems)
        check_same_types(pipelines, columns, problems)
        _check_state_prefixes(pipelines, problems)
        check_taken_over_once([(each, _source_path(each)) for each in _sources(pipelines)], problems)
    _check_overlaps(config, problems)


def check_columns(pipelines: Iterable[Pipeline], problems: Problems) -> "Mapping[str, Columns]":
    """Returns those of each source without problems whose schema is known, by its id."""
    columns: dict[str, Columns] = {}
    for pipeline in pipelines:
        for source in pipeline.sources.values():
            found = _columns(source, problems)
            if found is not None:
                columns[source.id] = found
        _check_partition_by(pipeline, columns, problems)
        _check_constraints(pipeline, columns, problems)
        check_table(pipeline, columns, problems)
    return columns


def _path(pipeline: str, *rest: str) -> Path:
    return ("pipelines", pipeline, *rest)


def _source_path(source: Source, *rest: str) -> Path:
    return _path(source.pipeline, "sources", source.name, *rest)


def _check_not_empty(config: Config, problems: Problems) -> None:
    if not config.pipelines and not problems.has(("pipelines",)):
        problems.add(("pipelines",), "there is no pipeline; add one")
    for pipeline in config.pipelines.values():
        if not pipeline.sources and not problems.has(path := _path(pipeline.name, "sources")):
            problems.add(path, "there is no source; add one, or remove the pipeline")


def _check_format_options(source: Source, problems: Problems) -> None:
    _check_blocks(source, _source_path(source), problems)
    if source.format != MIXED or problems.has(_source_path(source, "format")):
        return
    if source.mixed_options is None:
        text = "is missing; add rules, such as: mixed: [{pattern: '**/*.csv', format: csv}]"
        problems.add(_source_path(source, MIXED), text)
    if source.compression != AUTO:
        problems.add(_source_path(source, "compression"), "has no effect with `format: mixed`; move it to the rules")
    for index, rule in enumerate(source.mixed_options or ()):
        path = (*_source_path(source, MIXED), index)
        if rule.format == MIXED:
            problems.add((*path, "format"), "found mixed, expected the format of a file; change it")
        _check_blocks(rule, path, problems)
    if len({FORMATS[name].fixed_schema for name in source.formats}) > 1:
        text = "text and binary have a schema of their own, so they cannot be mixed with others; use another source"
        problems.add(_source_path(source, MIXED), text)


def _check_blocks(how: HowToRead, path: Path, problems: Problems) -> None:
    """An option of another format would have no effect."""
    if problems.has((*path, "format")):
        return
    for name in FILE_FORMATS:
        if name != how.format and getattr(how, f"{name}_options", None) is not None:
            text = f"has no effect with `format: {how.format}`, only with {name}; remove it"
            problems.add((*path, name), text)
    if how.format == "xml" and (how.xml_options is None or how.xml_options.row_tag is None):
        text = "is missing; add the name of the elements that are records, such as: xml: {row_tag: order}"
        problems.add((*path, "xml", "row_tag"), text)


def _check_inventory(source: Source, problems: Problems) -> None:
    path = _source_path(source, "inventory")
    if source.inventory is None or problems.has(path, _source_path(source, "uri")):
        return
    if not source.uri.startswith("s3://"):
        problems.add(path, f"S3 makes no inventory of {source.uri}; remove it")
    elif source.inventory.startswith(source.uri):
        problems.add(path, f"found {source.inventory}, inside the source, which would ingest the reports; move them")


# --- Columns ---

Columns = dict[str, str]
"""Column names to types, as one source writes them into its table."""


def _columns(source: Source, problems: Problems) -> Columns | None:
    """None when a problem hides them."""
    schema = _schema(source, problems)
    _check_partition_columns(source, schema or {}, problems)
    if problems.has(_source_path(source, "partition_columns")):
        return None
    if schema is None:
        if source.infers_schema:
            _check_derive(source, source.partition_columns, problems)
        return None
    columns = {**schema, **source.partition_columns}
    _check_derive(source, columns, problems)
    if problems.has(_source_path(source, "derive")):
        return None
    derived = {name: str(found.type or BY_SPARK) for name, found in expression_checks.derived(source).items()}
    return {**columns, **derived}


def _check_derive(source: Source, columns: Mapping[str, str], problems: Problems) -> None:
    """`columns`: all others, as far as they are known."""
    seen = {name.lower() for name in columns}
    row = expression_checks.read_columns(source) if source.derive else {}
    for name, sql in source.derive.items():
        path = _source_path(source, "derive", name)
        found = [*name_problems(name, name), *filter(None, [_reserved_name(name)])]
        if name.lower() in seen:
            found.append("is a column of the record or its path already, or derived twice; choose another name")
        found += filter(None, [_derive_problem(source, sql, row)])
        for problem in found:
            problems.add(path, problem)
        seen.add(name.lower())


def _derive_problem(source: Source, sql: str, row: Mapping[str, ddl.Type]) -> str | None:
    return refusal_of(sql, names_in(sql)) if source.infers_schema else expression_checks.problem_of(sql, row)


def _check_constraints(pipeline: Pipeline, columns: Mapping[str, Columns], problems: Problems) -> None:
    sources = pipeline.sources.values()
    if not pipeline.constraints or any(one.id not in columns and not one.infers_schema for one in sources):
        return
    for name, problem in expression_checks.constraint_problems(pipeline):
        problems.add(_path(pipeline.name, "constraints", name), problem)


def _schema(source: Source, problems: Problems) -> Columns | None:
    path = _source_path(source, "schema")
    if problems.has(path, _source_path(source, "format"), _source_path(source, MIXED)):
        return None
    file_format = FORMATS[source.formats[0]]
    if source.schema_ddl is not None and not file_format.requires_schema:
        found = f"found a schema with `format: {source.formats[0]}`"
        problems.add(path, f"{found}, whose schema is always {file_format.fixed_schema}; remove it")
        return None
    if source.schema_ddl is None and file_format.requires_schema:
        text = "is missing; add the columns of a record, such as: id STRING NOT NULL, value DOUBLE; or write infer"
        problems.add(path, text)
        return None
    if source.infers_schema:
        check_schema_rules(source, _source_path(source), problems)
        return None
    limits = [FORMATS[name].limits for name in source.formats]
    parsed = [_parse_schema(source.record_ddl, each, path, problems) for each in limits]
    columns = None if None in parsed else parsed[0]
    if columns is None:
        return None
    check_schema_rules(source, _source_path(source), problems)
    if problems.has(path):
        return None
    return {**columns, RESCUED: "string"} if source.schema_rules.rescues else columns


def _parse_schema(text: str, limits: FormatLimits, path: Path, problems: Problems) -> Columns | None:
    try:
        struct = ddl.parse(text, limits.types)
    except ddl.DdlError as error:
        problems.add(path, f"Spark cannot use this schema: {error}")
        return None
    found = storage_problems(struct, limits)
    found += [reason for column in struct.columns if (reason := _reserved_name(column.name))]
    for problem in found:
        problems.add(path, problem)
    return None if found else {column.name: str(column.type) for column in struct.columns}


def _reserved_name(column: str) -> str | None:
    """What is wrong with the name; None when it is free to use."""
    if column.lower() == PROVENANCE:
        return f"column `{column}` is reserved: Blizzard writes there which file a row came from; rename it"
    if column.lower().startswith(RESERVED):
        return f"column `{column}`: names that begin with {RESERVED} are reserved; rename it"
    return None


def _check_partition_columns(source: Source, schema: Columns, problems: Problems) -> None:
    in_schema = {name.lower() for name in schema}
    seen: set[str] = set()
    for column in source.partition_columns:
        path = _source_path(source, "partition_columns", column)
        for problem in _partition_column_problems(column, in_schema, seen):
            problems.add(path, problem)
        seen.add(column.lower())


def _partition_column_problems(column: str, in_schema: set[str], seen: set[str]) -> Iterator[str]:
    yield from name_problems(column, column)
    if column.startswith("_"):
        yield "begins with `_`; VACUUM treats such folders as hidden; choose another name"
    if column.lower() in in_schema:
        yield "is in `schema` too; a column comes either from the folder or from the record: remove it from one of them"
    if column.lower() in seen:
        yield "occurs twice (names are not case-sensitive); remove one"


def _check_partition_by(pipeline: Pipeline, columns: Mapping[str, Columns], problems: Problems) -> None:
    seen: set[str] = set()
    for i, column in enumerate(pipeline.partition_by):
        path: Path = (*_path(pipeline.name, "partition_by"), i)
        if problems.has(path):
            continue
        if column.startswith("_"):
            problems.add(path, f"found {column!r}; a partition column cannot begin with `_`; rename the column")
        elif column.lower() in seen:
            problems.add(path, f"found {column!r} twice; remove one")
        else:
            for source in pipeline.sources.values():
                _check_partition_column(source, column, columns.get(source.id), path, problems)
        seen.add(column.lower())


def _check_partition_column(
    source: Source, column: str, columns: Columns | None, path: Path, problems: Problems
) -> None:
    if columns is None:
        return
    kind = columns.get(column)
    if kind is None:
        problems.add(
            path,
            f"found {column!r}, which source {source.name} does not have; {did_you_mean(column, columns)}"
            f"expected one of {', '.join(columns)}; add it to the source's `schema` or `partition_columns`",
        )
    elif kind.startswith(("struct<", "array<", "map<")) or kind == "binary":
        problems.add(path, f"found {column!r} of type {kind}; a table is partitioned by simple values; choose another")


# --- Sources of one table ---


def _pipelines_by_table(config: Config, problems: Problems) -> dict[str, list[Pipeline]]:
    tables: dict[str, list[Pipeline]] = {}
    for pipeline in config.pipelines.values():
        if not problems.has(_path(pipeline.name, "table_uri")):
            tables.setdefault(pipeline.table_uri, []).append(pipeline)
    return tables


def _sources(pipelines: Iterable[Pipeline]) -> Iterator[Source]:
    return (source for pipeline in pipelines for source in pipeline.sources.values())


def _check_same_partitioning(pipelines: list[Pipeline], problems: Problems) -> None:
    first = pipelines[0]
    for pipeline in pipelines[1:]:
        path = _path(pipeline.name, "partition_by")
        if pipeline.partition_by != first.partition_by and not problems.has(path):
            problems.add(
                path,
                f"found {pipeline.partition_by}, but pipeline {first.name} partitions the same table by "
                f"{first.partition_by}; make them the same",
            )


def check_same_types(pipelines: Iterable[Pipeline], columns: Mapping[str, Columns], problems: Problems) -> None:
    known: dict[str, tuple[str, Source]] = {}
    for source in _sources(pipelines):
        for name, kind in columns.get(source.id, {}).items():
            other_kind, other = known.setdefault(name.lower(), (kind, source))
            if kind != other_kind and BY_SPARK not in (kind, other_kind):
                field = "partition_columns" if name in source.partition_columns else "schema"
                problems.add(
                    _source_path(source, field),
                    f"column `{name}` is {kind} here and {other_kind} in source {other.id} of the same table; "
                    "give it one type, or another name",
                )


def _check_state_prefixes(pipelines: list[Pipeline], problems: Problems) -> None:
    known: dict[str, Source] = {}
    for source in _sources(pipelines):
        other = known.setdefault(source.state_prefix.lower(), source)
        if other is not source:
            problems.add(
                _source_path(source),
                f"would keep its state in {source.state_prefix}, like {dotted(_source_path(other))}: their names, "
                "pipeline and source joined with `_`, are the same; rename one of them",
            )


# --- Locations that overlap ---


@dataclass(frozen=True, slots=True)
class _Location:
    uri: str
    """Ends in `/`."""
    path: Path
    is_table: bool

    @property
    def name(self) -> str:
        return f"{'the table of ' if self.is_table else ''}{dotted(self.path[:-1])} ({self.uri})"


def _check_overlaps(config: Config, problems: Problems) -> None:
    """Sorted by URI, a location comes right before everything inside it, so one pass finds each overlap."""
    enclosing: list[_Location] = []
    for location in sorted(_locations(config, problems), key=lambda location: (location.uri, location.is_table)):
        while enclosing and not location.uri.startswith(enclosing[-1].uri):
            enclosing.pop()
        if enclosing:
            problems.add(location.path, _overlap(enclosing[-1], location))
        enclosing.append(location)


def _locations(config: Config, problems: Problems) -> Iterator[_Location]:
    for pipelines in _pipelines_by_table(config, problems).values():
        yield _Location(f"{pipelines[0].table_uri}/", _path(pipelines[0].name, "table_uri"), is_table=True)
    for _, source in config.file_sources():
        path = _source_path(source, "uri")
        if not problems.has(path):
            yield _Location(source.uri, path, is_table=False)


def _overlap(outer: _Location, inner: _Location) -> str:
    where = "is the same as" if inner.uri == outer.uri else "lies inside"
    match outer.is_table, inner.is_table:
        case False, False:
            why = "a file would belong to both; give each source its own location, or make them one source"
        case False, True:
            why = "the table's own files would be ingested; move the table"
        case True, False:
            why = "VACUUM of the table would delete the source's files; move the source"
        case _:
            why = f"{TABLE_IN_TABLE}; move one of them"
    return f"found {inner.uri}, which {where} {outer.name}: {why}"
