"""What the settings of a pipeline leave to Spark, as far as that is known without its table."""

from collections.abc import Iterator, Sequence

from blizzard.config.engine_name import EngineName
from blizzard.config.expression_checks import constraints, derived
from blizzard.config.model import Pipeline


def refused_by_engine(pipeline: Pipeline) -> Sequence[str]:
    """What the pipeline's engine ends with an error at on any machine, since only Spark does it. Each is a noun
    phrase. The pipeline has no problems."""
    return () if EngineName(pipeline.engine).has_spark else [*_left_to_spark(pipeline)]


def starts_spark(pipeline: Pipeline) -> Sequence[str]:
    """What the pipeline's engine starts Spark for, and ends with an error at on a machine without; as above."""
    engine = EngineName(pipeline.engine)
    return [*_left_to_spark(pipeline)] if engine.has_spark and not engine.needs_spark else ()


def _left_to_spark(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.cluster_by:
        yield "making a table with `cluster_by`"
    for source in pipeline.sources.values():
        if source.on_overwrite == "replace":
            yield f"`on_overwrite: replace` of source {source.name}, once one of its files is overwritten"
        for name, found in derived(source).items():
            if found.by == "spark":
                yield f"column {name} of source {source.name}, derived by an expression with {found.why_spark}"
    for name, found in constraints(pipeline).items():
        if found.by == "spark":
            yield f"constraint {name}, an expression with {found.why_spark}"
