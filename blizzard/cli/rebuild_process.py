"""Runs the process of `blizzard rebuild`, shows what it does, and answers its question."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any

import typer

from blizzard.cli.job_process import json_of
from blizzard.cli.progress import Progress
from blizzard.environment import variables
from blizzard.setup.places import find_jars

EXIT_OK, EXIT_CONFIG, EXIT_INTERRUPTED = 0, 2, 130
YES = "yes\n"
NOTHING: Mapping[str, bool] = MappingProxyType({})


@dataclass(slots=True)
class Told:
    """What the process has told. `code`: its exit code."""

    code: int = EXIT_OK
    accepted: Mapping[str, bool] = field(default_factory=dict)
    """The options of a swap that were given, by name."""
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By source: its state, before and after."""
    refused: dict[str, str] = field(default_factory=dict)
    """By source: why its state was not rebuilt."""
    rebuilt: dict[str, dict[str, Any]] = field(default_factory=dict)
    compared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By source: how the new table compares with the old one."""
    others: list[dict[str, Any]] = field(default_factory=list)
    """Rows of others that the new table lacks: the `source` that they name, `rows` and `new_rows`."""
    moved: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    declined: bool = False
    swapped: bool = False
    config_changed: bool = False
    error: str | None = None

    def add(self, message: dict[str, Any]) -> None:
        for name in ("found", "rebuilt", "compared"):
            if name in message:
                getattr(self, name)[message[name]["source"]] = message[name] | {
                    key: message[key] for key in ("complete",) if key in message
                }
        if "refused" in message:
            self.refused[message["refused"]] = message["error"]
        if "moved" in message:
            self.moved.append(message["moved"])
        if "taken_back" in message:
            self.notes.append(f"{message['taken_back']}: the new table counts again, after another one had its place")
        self.others = message.get("others", self.others)
        self.swapped = self.swapped or "swapped" in message
        self.error = message.get("failed", self.error)

    def states(self) -> list[dict[str, Any]]:
        """Of each source, for programs."""
        return [
            *({**document, "verdict": self._verdict(source)} for source, document in self.found.items()),
            *({"source": s, "verdict": "refused", "error": e} for s, e in self.refused.items() if s not in self.found),
        ]

    def _verdict(self, source: str) -> str:
        if source in self.refused:
            return "refused"
        if source in self.rebuilt:
            return "rebuilt" if not self.rebuilt[source]["problems"] else "bad"
        return "planned" if self.found[source]["problems"] else "well"

    def tables(self) -> list[dict[str, Any]]:
        return [{**document, "moved": source in self.moved} for source, document in self.compared.items()]


@dataclass(frozen=True, slots=True)
class Question:
    """`yes`: it is answered already. `lines`: what is told before it is asked."""

    yes: bool
    lines: Callable[[Told], Sequence[str]]

    def asked(self, told: Told, *, as_json: bool) -> bool:
        """Without a terminal, and for programs, the answer is no."""
        if as_json:
            return False
        for line in self.lines(told):
            typer.echo(line)
        if not sys.stdin.isatty():
            return False
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return typer.confirm("Do this?", err=True)
        except (typer.Abort, KeyboardInterrupt):
            return False
        finally:
            signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class Rebuild:
    file: str
    sources: Sequence[str]
    question: Question
    as_json: bool

    def run(self, *, to: str | None = None, swap: bool = False, accepted: Mapping[str, bool] = NOTHING) -> Told:
        """`accepted`: the options of a swap that go on all the same, by name."""
        request = {
            "config": self.file,
            "sources": [*self.sources],
            "yes": self.question.yes,
            "jars": str(find_jars(variables())),
            "to": to,
            "swap": swap,
            **accepted,
        }
        command_line = [sys.executable, "-m", "spark_job.rebuild", json.dumps(request)]
        told = Told(accepted=accepted)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process gets it, too, and ends after its step
        try:
            with (
                tempfile.TemporaryFile("w+", errors="replace") as errors,
                subprocess.Popen(
                    command_line,
                    env=variables(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                ) as process,
            ):
                signal.signal(signal.SIGTERM, lambda *_: process.terminate())
                self._follow(process, told)
                told.code = process.wait()
                errors.seek(0)
                if told.code == -signal.SIGINT:
                    told.code = EXIT_INTERRUPTED
                elif told.code < 0 or (told.code and not told.error and "Traceback" in errors.read()):
                    errors.seek(0)
                    told.error = f"the process ended with {told.code}: {errors.read()[-2000:].strip()}"
                    told.code = 1
        finally:
            signal.signal(signal.SIGINT, before)
        return told

    def _follow(self, process: "subprocess.Popen[str]", told: Told) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        lines = process.stdout
        progress = _Shown(visible=not self.as_json)
        for line in lines:
            message = json_of(line)
            if message is None:
                continue
            if "event" in message:
                progress.show(message)
            elif "asks" in message:
                progress.stop()
                self._reply(process.stdin, told)
                progress.start()
            else:
                told.add(message)
        progress.stop()

    def _reply(self, stdin: IO[str], told: Told) -> None:
        agreed = self.question.asked(told, as_json=self.as_json)
        told.declined = not agreed
        if agreed:
            stdin.write(YES)
        stdin.close()


class _Shown:
    """The events of the job, with the current step on a terminal; nothing if it is not `visible`."""

    def __init__(self, *, visible: bool) -> None:
        self._visible = visible
        self._progress: Progress | None = None
        self.start()

    def start(self) -> None:
        if self._visible:
            self._progress = Progress().__enter__()

    def stop(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.__exit__(None, None, None)

    def show(self, event: dict[str, Any]) -> None:
        if self._progress is not None:
            self._progress.show(event)
