"""A process of the job, whose lines a command shows: its events, and what it said last if it failed."""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import typer

from blizzard.config.spark_settings import HEAP
from blizzard.environment import variables
from blizzard.errors import ConfigError, SetupError
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.java import find_java
from blizzard.setup.places import SETUP_COMMAND, find_jars

EXIT_SUCCESS, EXIT_INTERRUPTED = 0, 130
LAST_LINES = 15
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class JobProcess:
    """`capture`: whether what it writes to standard error, such as Spark's log, is kept back. After the `with` block it
    has ended."""

    def __init__(self, command_line: list[str], *, capture: bool) -> None:
        self._command_line = command_line
        self._capture = capture
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # The job gets Ctrl-C, too, and ends after its current step. It starts with both blocked, so that one that comes
        # early waits until the job can end cleanly.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._output = self._stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
        self._process = process = self._stack.enter_context(
            subprocess.Popen(
                self._command_line,
                env={**HEAP, **variables()},
                stdout=subprocess.PIPE,
                stderr=self._output if self._capture else None,
                text=True,
            )
        )
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def abandon(self) -> None:
        """End it at once, whatever it does: what it has not committed, it has not done."""
        self._process.kill()

    @property
    def lines(self) -> Iterable[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def end(self, *, error_shown: bool, expected: tuple[int, ...] = (EXIT_SUCCESS, EXIT_INTERRUPTED)) -> int:
        """Wait for its end, and say why it failed unless that was shown or the exit code is `expected`. Returns the
        exit code."""
        code = self._process.wait()
        if code not in expected and not error_shown:
            _show_last_lines(self._output)
        if code < EXIT_SUCCESS:
            typer.echo(_killed(-code), err=True)
        return code if code >= EXIT_SUCCESS else 1


def jars_folder(jars: Path | None, environ: Mapping[str, str], *, needed: bool) -> Path:
    """As check_spark, of the folder that is used."""
    folder = jars or find_jars(environ)
    check_spark(folder, needed=needed)
    return folder


def check_spark(folder: Path, *, needed: bool) -> None:
    """Raises ConfigError if the jars, which are in this folder, or Java are needed and not there."""
    if not needed:
        return
    if problem := problem_of(folder):
        raise ConfigError([f"--jars: expected a folder with Delta's jars, found {problem}; run `{SETUP_COMMAND}`"])
    try:
        find_java()
    except SetupError as error:
        raise ConfigError([f"engine spark: {error}"]) from error


def repeated(option: str, values: list[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def event_of(line: str) -> dict[str, Any] | None:
    """None for lines that Spark itself prints."""
    event = json_of(line)
    return event if event is not None and "event" in event else None


def json_of(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _killed(number: int) -> str:
    """What ended the job, which could not say it itself."""
    known = number in {*signal.Signals}
    name = signal.Signals(number).name if known else f"signal {number}"
    text = f"the job was ended by {name}; what was committed stays, and the next run continues"
    if number == signal.SIGKILL:
        text += ". If nobody sent it, the machine is out of memory: lower `limits.task_memory_bytes`"
    return f"{text}."


def _show_last_lines(output: IO[str]) -> None:
    """The end of the output of job and Spark without the events, such as a traceback or an error about Java."""
    output.seek(0)
    lines = [line for line in output if "WARN" not in line and "log4j" not in line]
    if lines:
        typer.echo("what the job said last:", err=True)
    for line in lines[-LAST_LINES:]:
        typer.echo(f"  {line.rstrip()}", err=True)
