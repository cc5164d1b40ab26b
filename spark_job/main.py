"""Entry point of the ingest job, for spark-submit and for `python -m spark_job.main`."""

import sys

if __package__ in (None, ""):  # spark-submit runs this file as a script, with only its folder on the path
    sys.path[0] = sys.path[0].removesuffix("/spark_job")

import argparse
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.config.model import Config, Pipeline, Source
from blizzard.config.spark_master import spark_options
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import Log, stdout_log
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.spark_errors import error_text
from spark_job.loop.continuous import run_continuously
from spark_job.loop.drain import drain_all
from spark_job.loop.warm_up import WarmUp
from spark_job.session import start_jvm_thread
from spark_job.start import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_STOPPED,
    SIGNALS,
    config_at,
    end_process,
    engine_of,
    engines_for,
    stop_on_signals,
)
from spark_job.tasks.engine import Engine
from spark_job.tasks.worker_process import collect_garbage_rarely
from spark_job.wiring import SourceJob, source_job

SPARK_LOST = (
    "The job needs it and ends. What was committed stays, and the next run continues after it: start it again. "
    "If this happens again, look for the reason in the kernel's log (`dmesg`) or in hs_err_pid*.log. Often the machine "
    "is out of memory: lower spark.driver.memory, or use a larger machine."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code. 0: success; 1: a source failed, as the log says (without --once: and no
    step of it has succeeded since), or Spark's JVM has ended; 2: the configuration or an option is wrong; 130: a signal
    ended the run before the backlog was gone."""
    options = _options(arguments)
    collect_garbage_rarely()
    log = stdout_log(time.time)
    stop = threading.Event()
    stop_on_signals(stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by `blizzard run`
    environ = variables()
    try:
        s3 = S3Settings.from_environment(environ)
        config = config_at(options.config, environ, s3)
        on_spark = spark_options(environ, master=options.master, conf=options.spark_conf)
        wanted = on_spark.engine(options.engine)
        engines = engines_for(config, options.jars, on_spark, s3, log, partial(stop_on_signals, stop))
        jobs = _jobs(config, options.pipeline, s3, log, lambda pipeline: engines.named(engine_of(pipeline, wanted)))
    except ConfigError as error:
        for problem in error.problems:
            log("configuration_wrong", problem=problem)
        return EXIT_CONFIG
    except BlizzardError as error:
        log("configuration_unreadable", error=str(error))
        return EXIT_CONFIG
    try:
        if options.once:
            return run_once(jobs, options.sweep, log, stop, max_secs=options.max_secs or math.inf)
        return run_until_stopped(jobs, options.sweep, log, stop)
    except ConnectionRefusedError as error:  # of py4j; errors of storage have other types
        log("spark_lost", error=f"Spark's JVM no longer responds: {error}. {SPARK_LOST}")
        return EXIT_FAILED
    except Exception as error:
        log("job_failed", kind=type(error).__name__, error=str(error)[:2000])
        raise
    finally:
        engines.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="blizzard-job", description="Ingest the backlog of every source into Delta.")
    parser.add_argument("--config", required=True, help="path or s3:// URI of the configuration")
    parser.add_argument("--pipeline", action="append", help="only this pipeline (may be given more than once)")
    parser.add_argument("--sweep", action="store_true", help="also sweep the sources; for use without a sweeper")
    parser.add_argument("--once", action="store_true", help="ingest the backlog, linger, and end")
    parser.add_argument(
        "--max-secs",
        type=seconds,
        default=0.0,
        metavar="SECS",
        help="with --once: start no step after this time; 0: no limit",
    )
    parser.add_argument(
        "--engine",
        choices=[*EngineName, CONFIGURED],
        default=EngineName.SPARK,
        help="what runs the tasks and commits: spark (the default, always right on a cluster), local, auto, or what "
        "each pipeline of the configuration says",
    )
    parser.add_argument("--master", metavar="URL", help="where Spark runs its tasks, such as spark://HOST:PORT")
    parser.add_argument("--jars", help="folder with Delta's jars, unless spark-submit provides them")
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one more setting for Spark",
    )
    options = parser.parse_args(arguments)
    if options.max_secs and not options.once:
        parser.error("--max-secs: expected --once as well; without it the job runs until a signal")
    return options


def seconds(text: str) -> float:
    secs = float(text)
    if not 0 <= secs < math.inf:
        raise ValueError(text)
    return secs


def _jobs(
    config: Config, names: Sequence[str] | None, s3: S3Settings, log: Log, engine_of: Callable[[Pipeline], Engine]
) -> list[SourceJob]:
    unknown = set(names or ()) - set(config.pipelines)
    if unknown:
        known = ", ".join(sorted(config.pipelines))
        raise ConfigError(
            [f"--pipeline {', '.join(sorted(unknown))}: there is no such pipeline; expected one of {known}"]
        )
    chosen = [(pipeline, source) for pipeline, source in config.sources() if not names or pipeline.name in names]
    return [_job(pipeline, source, engine_of(pipeline), s3, log) for pipeline, source in chosen]


def _job(pipeline: Pipeline, source: Source, engine: Engine, s3: S3Settings, log: Log) -> SourceJob:
    if source.kafka is None:
        return source_job(pipeline, source, engine=engine, s3=s3, log=log)
    from spark_job.topic_wiring import topic_job  # Kafka's client, which few jobs need

    return topic_job(pipeline, source, source.kafka, engine=engine, s3=s3, log=log)


def run_once(
    jobs: Sequence[SourceJob], sweep: bool, log: Log, stop: threading.Event, *, max_secs: float = math.inf
) -> int:
    """Drain the sources, and linger if the pipeline says so. After `max_secs` only a step in progress is finished.
    Returns the exit code."""
    failed, stopped = drain_all(
        jobs,
        discover=sweep,
        log=log,
        stopping=stop.is_set,
        clock=time.monotonic,
        wait=_wait_with_warm_up(jobs, log, stop),
        max_secs=max_secs,
    )
    if failed:
        return EXIT_FAILED
    return EXIT_STOPPED if stopped else EXIT_OK


def run_until_stopped(jobs: Sequence[SourceJob], sweep: bool, log: Log, stop: threading.Event) -> int:
    """Ingest until a signal; a step in progress is finished first. Returns the exit code."""
    wait = _wait_with_warm_up(jobs, log, stop)
    failed = run_continuously(jobs, discover=sweep, log=log, stopping=stop.is_set, clock=time.monotonic, wait=wait)
    return EXIT_FAILED if failed else EXIT_OK


def _wait_with_warm_up(jobs: Sequence[SourceJob], log: Log, stop: threading.Event) -> WarmUp:
    """Waits for a number of seconds, or until the signal."""
    return WarmUp(
        stop.wait,
        jobs,
        log,
        stopping=stop.is_set,
        start=partial(start_jvm_thread, name="warm-up"),
        clock=time.monotonic,
        error_text=error_text,
    )


if __name__ == "__main__":
    end_process(main())
