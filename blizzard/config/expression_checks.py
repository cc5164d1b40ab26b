"""Who evaluates the expressions of a configuration: the fast reader, or Spark; and which expressions are refused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from blizzard.config import ddl
from blizzard.config.expressions.syntax import NotUnderstood, UnknownName
from blizzard.config.expressions.tokens import names_in, refusal_of
from blizzard.config.expressions.typed import BOOLEAN, NULL, Columns, understand
from blizzard.config.model import Pipeline, Source
from blizzard.config.provenance import PROVENANCE, PROVENANCE_DDL


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`type`: of the value; None: only Spark knows it, and evaluates it. `why_spark` completes "because it has".
    `is_open`: whether it names columns that nobody knows before `schema: infer` has found them."""

    sql: str
    type: ddl.Type | None
    why_spark: str | None = None
    is_open: bool = False

    @property
    def by(self) -> str | None:
        """None: that is open."""
        return None if self.is_open else "spark" if self.type is None else "reader"


def read_columns(source: Source) -> dict[str, ddl.Type]:
    """All columns that expressions of a source may name, as far as they are known. Raises DdlError."""
    record = {column.name: column.type for column in ddl.parse(source.row_ddl).columns} if source.row_ddl else {}
    paths = {name: ddl.parse(f"c {kind}").columns[0].type for name, kind in source.partition_columns.items()}
    return {**record, **paths, PROVENANCE: ddl.parse(PROVENANCE_DDL)}


def evaluation(sql: str, columns: Mapping[str, ddl.Type]) -> Evaluation:
    """Raises UnknownName."""
    try:
        return Evaluation(sql, understand(sql, Columns(columns)).type)
    except UnknownName:
        raise
    except NotUnderstood as error:
        return Evaluation(sql, None, str(error))


def derived(source: Source) -> dict[str, Evaluation]:
    """Of a source without problems, by column."""
    columns = read_columns(source)
    return {name: _known(sql, columns, is_open=source.infers_schema) for name, sql in source.derive.items()}


def _known(sql: str, columns: Mapping[str, ddl.Type], *, is_open: bool) -> Evaluation:
    """`is_open`: whether there may be other columns."""
    try:
        return evaluation(sql, columns)
    except UnknownName:
        if is_open:
            return Evaluation(sql, None, is_open=True)
        raise


def _is_open(pipeline: Pipeline) -> bool:
    return any(source.infers_schema for source in pipeline.sources.values())


def constraints(pipeline: Pipeline) -> dict[str, Evaluation]:
    """Of a pipeline without problems, by name."""
    columns, by_spark = table_columns(pipeline)
    is_open = _is_open(pipeline)
    return {name: _constraint(sql, columns, by_spark, is_open=is_open) for name, sql in pipeline.constraints.items()}


def table_columns(pipeline: Pipeline) -> tuple[dict[str, ddl.Type], set[str]]:
    """The columns of all sources; and those of which only Spark knows the type."""
    columns, by_spark = dict[str, ddl.Type](), set[str]()
    for source in pipeline.sources.values():
        columns |= read_columns(source)
        for name, found in derived(source).items():
            if found.type is None:
                by_spark.add(name)
            else:
                columns[name] = found.type
    return columns, by_spark


def _constraint(sql: str, columns: Mapping[str, ddl.Type], by_spark: set[str], *, is_open: bool = False) -> Evaluation:
    try:
        return _known(sql, columns, is_open=is_open)
    except UnknownName:
        if named := sorted(name for name in by_spark if name.lower() in names_in(sql)):
            return Evaluation(sql, None, f"column {named[0]}, which Spark derives")
        raise


def problem_of(sql: str, columns: Mapping[str, ddl.Type]) -> str | None:
    """Why an expression cannot be evaluated over these columns; None if it can, as far as is known without Spark."""
    refused = refusal_of(sql, {name.lower() for name in columns})
    if refused is not None:
        return refused
    try:
        if evaluation(sql, columns).type == NULL:
            return "has no type; cast it, such as: cast(null as string)"
    except UnknownName as error:
        known = ", ".join(name for name in columns if name != PROVENANCE)
        return f"has {error}; expected one of {known}, or a field of {PROVENANCE}"
    return None


def constraint_problems(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Name and problem, for sources without problems."""
    columns, by_spark = table_columns(pipeline)
    is_open = _is_open(pipeline)
    names = [name.lower() for name in pipeline.constraints]
    for name, sql in pipeline.constraints.items():
        if names.count(name.lower()) > 1:
            yield name, "differs from another one in case only, which Delta does not tell apart; rename it"
        refused = refusal_of(sql, names_in(sql) if is_open else {column.lower() for column in columns})
        if refused is not None:
            yield name, refused
            continue
        try:
            found = _constraint(sql, columns, by_spark, is_open=is_open)
        except UnknownName as error:
            yield name, f"has {error}; no source of the pipeline has it"
            continue
        if found.type not in (None, BOOLEAN):
            yield name, f"has a value of type {found.type}; expected a condition, such as `value >= 0`"
