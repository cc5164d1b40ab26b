"""The process of `blizzard rebuild`."""

import json
import signal
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from blizzard.config.engine_name import CONFIGURED
from blizzard.config.model import Pipeline
from blizzard.config.spark_master import spark_options
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import stdout_log
from blizzard.storage.s3_connection import S3Settings
from spark_job.rebuild.compare import Accepted
from spark_job.rebuild.process import RebuildProcess, ask, tell
from spark_job.start import EXIT_CONFIG, EXIT_FAILED, SIGNALS, config_at, engine_of, engines_for, stop_on_signals
from spark_job.tasks.worker_process import collect_garbage_rarely

_LISTING_ALL = {"partition_filter": None, "inventory": None}
_NEVER_QUIET = {"quiet_secs": 0}


def main(request: str) -> int:
    """`request`: JSON with `config`, a path; `sources`, their ids; `yes`; `jars`; and, for another table, `to`, `swap`,
    `without_gone`, `without_others`, `with_deleted` and `with_changed`. Returns the exit code."""
    wanted: Mapping[str, Any] = json.loads(request)
    collect_garbage_rarely()
    stop = threading.Event()
    if wanted["to"] is None:  # it may be killed anywhere
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    else:
        stop_on_signals(stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        return _rebuild(wanted, stop)
    except ConfigError as error:
        tell(failed=str(error))
        return EXIT_CONFIG
    except (BlizzardError, ConnectionRefusedError) as error:  # the latter of py4j: Spark's JVM has ended
        tell(failed=str(error))
        return EXIT_FAILED


def _rebuild(wanted: Mapping[str, Any], stop: threading.Event) -> int:
    environ, log = variables(), stdout_log(time.time)
    s3 = S3Settings.from_environment(environ)
    config = config_at(wanted["config"], environ, s3)
    on_spark = spark_options(environ, master=None, conf=())
    named = on_spark.engine(CONFIGURED)
    chosen = [(pipeline, source) for pipeline, source in config.sources() if source.id in wanted["sources"]]
    to = wanted["to"]
    moved = None if to is None else with_table(chosen[0][0], to)
    tables = config if moved is None else config.model_copy(update={"pipelines": {**config.pipelines, "": moved}})
    engines = engines_for(tables, wanted["jars"], on_spark, s3, log, partial(stop_on_signals, stop))
    agreed = (lambda: True) if wanted["yes"] else ask
    try:
        process = RebuildProcess(
            config, lambda pipeline: engines.named(engine_of(pipeline, named)), s3, agreed, stop, log
        )
        if moved is None:
            return process.rebuild_states(chosen)
        old = chosen[0][0]
        options = ("without_gone", "without_others", "with_deleted", "with_changed")
        accepted = Accepted(*(wanted[name] for name in options))
        return process.rebuild_table(old, moved, swap=wanted["swap"], accepted=accepted)
    finally:
        engines.close()


def with_table(pipeline: Pipeline, table_uri: str) -> Pipeline:
    """The pipeline as it fills another table with all that its sources have: folders of any date are listed, also quiet
    ones, and it ends with its backlog."""
    sources = {
        name: source.model_copy(update=_LISTING_ALL | {"sweep": source.sweep.model_copy(update=_NEVER_QUIET)})
        for name, source in pipeline.sources.items()
    }
    return pipeline.model_copy(update={"table_uri": table_uri, "sources": sources, "linger_secs": 0})
