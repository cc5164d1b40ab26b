"""Starts Spark on a cluster, within bounded time, and looks whether its executors can run the job."""

import queue
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from blizzard.config.spark_master import MASTER, SparkOptions, addresses
from blizzard.environment import set_variables, variables
from blizzard.errors import ConfigError, PermanentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_SECS = "spark.blizzard.startSecs"
"""Setting: how long the cluster may take to accept the job, and then to give it its first executor."""
DEFAULT_START_SECS = 300.0
CONNECT_SECS = 10.0
"""For one connection to the master; a cluster in the same network answers within milliseconds."""
T = TypeVar("T")


def is_on_cluster(conf: Mapping[str, str]) -> bool:
    return SparkOptions(conf.get(MASTER)).on_cluster


def worker_python() -> str:
    """What executors start by default: this path exists only on this machine, so a name that is looked up on PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def start_on_cluster(
    conf: Mapping[str, str], start: Callable[[], "SparkSession"], errors: tuple[type[Exception], ...]
) -> "SparkSession":
    """The session that `start` makes, once an executor has shown that it can run the job. `errors` are Spark's own.

    Raises PermanentError if the master cannot be reached, if time is up, or if executors lack something."""
    master, secs = conf[MASTER], _start_secs(conf)
    own_address = _check_reachable(master, addresses(master))
    if own_address is not None:
        # Executors connect to the driver. Spark would take the machine's name, or what a checkout's set-up says.
        set_variables({"SPARK_LOCAL_IP": own_address, **variables()})
    session = _within(secs, start, f"{master} did not accept the job", _ACCEPTED, errors)
    what = f"no executor of {master} has started a task"
    try:
        problem = _within(secs, lambda: _first_task(session), what, _EXECUTORS, errors)
    except PermanentError:
        session.sparkContext.cancelAllJobs()
        raise
    if problem:
        raise PermanentError(f"the executors of {master} cannot run the job: {problem}. {_SHIP}")
    return session


_ACCEPTED = "Look at the cluster's own page for what it waits for, and whether executors end at once"
_EXECUTORS = (
    "Expected one with free cores and memory. Look at the cluster's own page for what is free, and whether executors "
    "end at once; ask for less with spark.executor.cores and spark.executor.memory"
)
_SHIP = "Ship the job and its packages to the executors, as docs/clusters.md shows"


def _start_secs(conf: Mapping[str, str]) -> float:
    text = conf.get(START_SECS, f"{DEFAULT_START_SECS:g}")
    try:
        secs = float(text)
    except ValueError:
        secs = 0.0
    if not 0 < secs <= threading.TIMEOUT_MAX:
        raise ConfigError([f"{START_SECS}: expected a number of seconds above 0, found {text!r}; correct it"])
    return secs


def _check_reachable(master: str, found: Sequence[tuple[str, int]]) -> str | None:
    """This machine's address in the cluster's network; None: the master has no address. One of several masters is
    enough: the others wait to take over. Spark itself would try for a minute, and then say that its context was
    stopped."""
    failed = []
    for address in found:
        try:
            with socket.create_connection(address, CONNECT_SECS) as connected:
                own: str = connected.getsockname()[0]
                return own
        except OSError as error:
            failed.append(f"{address[0]}:{address[1]}: {error}")
    if failed:
        raise PermanentError(
            f"the cluster {master} cannot be reached: {'; '.join(failed)}. Start it, correct the URL, or open the port "
            "to this machine."
        )
    return None


def _within(secs: float, work: Callable[[], T], what: str, do_next: str, errors: tuple[type[Exception], ...]) -> T:
    """The work's result. Its thread is left behind if it takes longer, and does not delay the process's end."""
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def worked() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the other thread
            done.put((None, error))

    threading.Thread(target=worked, name="cluster-start", daemon=True).start()
    try:
        result, error = done.get(timeout=secs)
    except queue.Empty:
        raise PermanentError(f"{what} within {secs:g} s. {do_next}, or wait longer with {START_SECS}.") from None
    if isinstance(error, errors):
        raise PermanentError(f"{what}: {_short(error)}\n{do_next}.") from error
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _short(error: Exception) -> str:
    from spark_job.engines.spark.spark_errors import error_text

    # Where the context that a cluster ended was made says nothing about why.
    return error_text(error).partition("\nThis stopped SparkContext")[0]


def _first_task(session: "SparkSession") -> str:
    """What an executor lacks; empty: nothing."""

    # A nested function travels as code, since executors may not have this module.
    def lacking(_: int) -> str:
        import sys

        try:
            import spark_job.tasks.batch_tasks  # noqa: F401
        except ImportError as error:
            version = ".".join(map(str, sys.version_info[:2]))
            return f"{error} (Python {version}, {sys.executable})"
        return ""

    found: list[str] = session.sparkContext.parallelize([0], 1).map(lacking).collect()
    return found[0]
