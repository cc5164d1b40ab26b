"""Checks of the configuration, and of the machine that runs it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from blizzard.config.engine_name import EngineName
from blizzard.config.left_to_spark import refused_by_engine, starts_spark
from blizzard.config.load import LoadResult
from blizzard.config.model import Config
from blizzard.config.spark_master import spark_options
from blizzard.config.spark_settings import LOG_STORES
from blizzard.doctor.check import Check, Finding, Verdict, ok, problem, skipped, warning
from blizzard.errors import SetupError
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.java import find_java
from blizzard.setup.places import SETUP_COMMAND, find_jars
from blizzard.setup.spark_here import why_no_spark

LOG_STORE_PREFIX = "spark.delta.logstore."
RETENTION_DEFAULT = "spark.databricks.delta.properties.defaults.settransactionretentionduration"
SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """`deployed`: a stack runs it, not this machine."""

    file: str
    reading: LoadResult
    environ: Mapping[str, str]
    deployed: bool = False


def _valid(subject: ConfigurationFile) -> Finding:
    problems = subject.reading.problems
    if subject.reading.config is not None:
        pipelines = subject.reading.config.pipelines
        sources = sum(len(pipeline.sources) for pipeline in pipelines.values())
        return ok(f"{_counted(len(pipelines), 'pipeline')} with {_counted(sources, 'source')}")
    shown = "; ".join(map(str, problems[:SHOWN_PROBLEMS]))
    return problem(
        f"{_counted(len(problems), 'problem')}: {shown}",
        expected="a file without problems",
        advice=f"correct the file; `blizzard validate {subject.file}` names every problem",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _engine(subject: ConfigurationFile) -> Finding:
    """An `auto` pipeline may also need Spark for its records or its table: then the run says why, and what is
    missing."""
    config = subject.reading.config
    if subject.deployed or config is None:
        return skipped("runs of a stack do not use this machine")
    names = [pipeline.name for pipeline in config.pipelines.values() if EngineName(pipeline.engine).needs_spark]
    spark = _spark_here(subject, names)
    return spark if spark.verdict is Verdict.PROBLEM else _left_to_spark(config, subject.environ) or spark


def _left_to_spark(config: Config, environ: Mapping[str, str]) -> Finding | None:
    """None: nothing that an engine here cannot do."""
    pipelines = config.pipelines.values()
    if refused := [f"{each.name}: {what}" for each in pipelines for what in refused_by_engine(each)]:
        return warning(
            f"left to Spark: {'; '.join(refused[:SHOWN_PROBLEMS])}, and `engine: local` has none",
            expected="settings with which the local engine goes on",
            advice="set `engine: auto` or `engine: spark`; see docs/how-it-works.md#engines",
        )
    left = [f"{each.name}: {what}" for each in pipelines for what in starts_spark(each)]
    if left and (missing := why_no_spark(environ)):
        return warning(
            f"left to Spark: {'; '.join(left[:SHOWN_PROBLEMS])}, and it cannot start on this machine: {missing}",
            expected="Java and Spark's jars, or settings with which the local engine goes on",
            advice=f"install Java 17 or 21, and run `{SETUP_COMMAND}`; see docs/how-it-works.md#engines",
        )
    return None


def _spark_here(subject: ConfigurationFile, names: Sequence[str]) -> Finding:
    """`names`: of the pipelines that do nothing without Spark."""
    if not names:
        return ok("the local engine, which needs no Java, as far as it goes")
    try:
        java = find_java()
    except SetupError as error:
        return problem(f"{', '.join(names)} with `engine: spark`, and {error}", expected="a Java", advice="install it")
    if missing := problem_of(find_jars(subject.environ)):
        return problem(
            f"{', '.join(names)} with `engine: spark`, and {missing}", expected="Spark's jars", advice=SETUP_COMMAND
        )
    return ok(f"Java {java.major} and all jars")


def _log_store(subject: ConfigurationFile) -> Finding:
    """The environment may replace what the session sets, and would end exactly-once without an error."""
    if subject.deployed:
        return skipped("runs of a stack do not see this machine's environment")
    wrong = list(unsafe_settings(spark_options(subject.environ, master=None, conf=()).conf))
    if not wrong:
        return ok("no setting for Spark replaces the log store or lets Txns expire")
    return problem(
        "; ".join(wrong),
        expected="Blizzard's log store, with which only one of two writers wins a commit, and Txns that do not expire",
        advice="remove them from BLIZZARD_SPARK_CONF; see docs/how-it-works.md#the-log-store",
    )


def unsafe_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """Those of a session by which two writers could win one commit, or a table forgets what is ingested."""
    for name, value in settings.items():
        if name.lower().startswith(LOG_STORE_PREFIX) and value not in LOG_STORES.values():
            yield f"{name}={value} replaces the log store"
        if name.lower() == RETENTION_DEFAULT:
            yield f"{name}={value} lets the Txns of new tables expire"


CHECKS: Sequence[Check[ConfigurationFile]] = (
    Check("configuration.valid", _valid),
    Check("configuration.engine", _engine, needs=("configuration.valid",)),
    Check("configuration.log-store", _log_store),
)
