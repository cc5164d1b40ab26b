"""The process that has files and records read once more, for `blizzard replay` and `blizzard replace`. Its events are
JSON lines, as those of the job; the last line has the answer."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from blizzard.audit.lives import Lives
from blizzard.audit.question import Question
from blizzard.audit.rows_of_lives import with_rows
from blizzard.audit.source import audited_source
from blizzard.config.formats import ENVELOPE
from blizzard.config.model import Pipeline, Source
from blizzard.config.spark_master import spark_options
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import Log, stdout_log
from blizzard.paths.pattern import Pattern
from blizzard.state.stored_letters import LetterFilter
from blizzard.storage.s3_connection import S3Settings
from spark_job.repair.answer import answer_of
from spark_job.repair.repair_files import Repair
from spark_job.repair.repair_topics import topic_repair_of, whole_partitions
from spark_job.repair.wiring import repair_of
from spark_job.repair.wishes import (
    MAX_PROBLEMS,
    GivenRecord,
    Wish,
    from_given,
    from_letters,
    from_lives,
    from_partitions,
    given_records,
)
from spark_job.repair.work import Work
from spark_job.start import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_STOPPED,
    SIGNALS,
    config_at,
    engine_of,
    engines_for,
    stop_on_signals,
)
from spark_job.tasks.engine import Engine
from spark_job.tasks.worker_process import collect_garbage_rarely
from spark_job.topic_wiring import brokers_of, topic_parts
from spark_job.wiring import SourceParts, TableParts, source_parts


@dataclass(frozen=True, slots=True)
class Request:
    """What the command has been given. `sources`: ids, all of which the configuration has."""

    config: str
    sources: tuple[str, ...]
    replace: bool = False
    paths: tuple[str, ...] = ()
    prefix: str = ""
    stages: tuple[str, ...] = ()
    reason: str | None = None
    since_ts: float = 0.0
    until_ts: float = 1e12
    records: str | None = None
    records_name: str = ""
    """What they are called in errors."""
    engine: str = "auto"
    jars: str | None = None
    dry_run: bool = False

    @classmethod
    def from_json(cls, text: str) -> "Request":
        document: dict[str, Any] = json.loads(text)
        for name, value in document.items():
            document[name] = tuple(value) if isinstance(value, list) else value
        return cls(**document)

    def matches(self) -> Callable[[str], bool]:
        patterns = [Pattern(glob) for glob in self.paths]

        def match(path: str) -> bool:
            return path.startswith(self.prefix) and (not patterns or any(one.matches(path) for one in patterns))

        return match

    def bytes_expression(self) -> str | None:
        """As that of a pattern, of all paths that are meant; None: of all below `prefix`."""
        return "|".join(Pattern(glob).bytes_expression() for glob in self.paths) or None


def main(request: str) -> int:
    """Returns the exit code. 0: all that was asked for is in the table; 1: some is not, as the answer says, or nothing
    was begun, since storage or state cannot be read; 2: the input is wrong, and nothing was done; 130: a signal ended
    it between two commits."""
    wanted, log, stop = Request.from_json(request), stdout_log(time.time), threading.Event()
    collect_garbage_rarely()
    stop_on_signals(stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by the command
    environ = variables()
    try:
        s3 = S3Settings.from_environment(environ)
        config = config_at(wanted.config, environ, s3)
        records = _given(wanted)
        on_spark = spark_options(environ, master=None, conf=())
        asked = on_spark.engine(wanted.engine)
        engines = engines_for(config, wanted.jars, on_spark, s3, log, partial(stop_on_signals, stop))
        parts = [
            _parts(pipeline, source, engines.named(engine_of(pipeline, asked)), s3, log)
            for pipeline, source in config.sources()
            if source.id in wanted.sources
        ]
        wishes = _wishes(wanted, parts, records)
    except ConfigError as error:
        for problem in error.problems:
            log("configuration_wrong", problem=problem)
        return EXIT_CONFIG
    except BlizzardError as error:
        log("repair_failed", error=str(error))
        return EXIT_FAILED
    try:
        answers = [_repair(one, wish, wanted, stop, log) for one, wish in zip(parts, wishes, strict=True)]
    finally:
        engines.close()
    sys.stdout.write(json.dumps({"answer": answers}) + "\n")
    sys.stdout.flush()
    bad = ("error", "left", "unreadable")
    if any(answer["counts"]["bad"] or any(answer[name] for name in bad) for answer in answers):
        return EXIT_STOPPED if stop.is_set() else EXIT_FAILED
    return EXIT_OK


def _parts(pipeline: Pipeline, source: Source, engine: Engine, s3: S3Settings, log: Log) -> TableParts:
    """Raises PermanentError for a source that reads topics, if Kafka's client is not installed."""
    if source.kafka is None:
        return source_parts(pipeline, source, engine=engine, s3=s3, log=log)
    brokers_of(source, source.kafka)
    return topic_parts(pipeline, source, engine=engine, s3=s3, log=log)


def _given(request: Request) -> list[GivenRecord] | None:
    """Raises ConfigError."""
    if request.records is None:
        return None
    try:
        return given_records(Path(request.records).read_text(encoding="utf-8-sig"), request.records_name)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"--records {request.records_name}: cannot be read: {error}"]) from error


def _wishes(request: Request, parts: Sequence[TableParts], records: list[GivenRecord] | None) -> list[Wish]:
    """Raises ConfigError if a repaired record replaces none that was refused, or nothing is to be replaced."""
    if request.replace:
        wishes = [_listed(request, one) for one in parts]
        if not any(wish.items or wish.results for wish in wishes):
            raise ConfigError([f"nothing of {', '.join(request.sources)} matches: nothing was replaced"])
        return wishes
    if records is None:
        wanted = LetterFilter(
            request.matches(), frozenset(request.stages), request.reason, request.since_ts, request.until_ts
        )
        return [from_letters(one.state, one.identity.state_prefix, one.identity.source_id, wanted) for one in parts]
    taken = dict[int, list[str]]()
    wishes = [from_given(one.state, one.identity.state_prefix, one.identity.source_id, records, taken) for one in parts]
    problems = [_problem_of(one, request, taken.get(one.line, [])) for one in records]
    problems += [_problem_of_envelope(one) for one, wish in zip(parts, wishes, strict=True) if wish.items]
    if any(problems):
        raise ConfigError([problem for problem in problems if problem][:MAX_PROBLEMS])
    return wishes


def _problem_of_envelope(parts: TableParts) -> str | None:
    if parts.source.format != ENVELOPE:
        return None
    return (
        f"--records: source {parts.source.id} keeps messages as they are (format: envelope), so none can be given. "
        "Nothing was put back."
    )


def _problem_of(one: GivenRecord, request: Request, letters: Sequence[str]) -> str | None:
    """Unless a record takes the place of exactly one."""
    which = f"{request.records_name}, line {one.line}: record {one.row} of {one.path}"
    if not letters:
        where = one.source or ", ".join(request.sources)
        return f"{which} has no dead letter in {where}; see `blizzard letters --details`. Nothing was put back."
    if len(letters) > 1:
        return f"{which} has several letters ({'; '.join(letters)}): say source and etag. Nothing was put back."
    return None


def _listed(request: Request, parts: TableParts) -> Wish:
    """Raises ConfigError for a partition that cannot be read again whole."""
    if not isinstance(parts, SourceParts):
        assert parts.source.kafka is not None
        whole = whole_partitions(parts, parts.source.kafka, request.matches())
        return from_partitions(parts.identity.source_id, whole)
    source = audited_source(parts.pipeline, parts.source, parts.s3)
    lives = Lives(source, request.prefix, request.matches(), time.time())
    found = lives.wanted(Question(expression=request.bytes_expression()))
    matching = (life for life in found if parts.settings.sweep_rules.matches(life.path))
    return from_lives(with_rows(source, lives.snapshot, matching))


def _repair(parts: TableParts, wish: Wish, request: Request, stop: threading.Event, log: Log) -> Mapping[str, Any]:
    work, error = Work(wish.items), None
    if wish.items and not request.dry_run and not stop.is_set():
        try:
            _repair_for(parts, work, wish).run(stop.is_set)
        except (BlizzardError, ConnectionRefusedError) as caught:  # the second of py4j, if Spark's JVM has ended
            error = str(caught)
            log("source_failed", source=parts.identity.source_id, kind=type(caught).__name__, error=error)
    kind = "files" if isinstance(parts, SourceParts) else "topics"
    return answer_of(parts.identity.source_id, wish, work, kind=kind, dry_run=request.dry_run, error=error)


def _repair_for(parts: TableParts, work: Work, wish: Wish) -> Repair:
    if isinstance(parts, SourceParts):
        return repair_of(parts, work)
    assert parts.source.kafka is not None
    return topic_repair_of(parts, parts.source.kafka, work, wish.whole)
