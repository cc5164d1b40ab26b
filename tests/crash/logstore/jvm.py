"""Compiles LogStoreDriver and runs it in JVMs of its own."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from blizzard.environment import variables
from blizzard.setup.java import Java, find_jdk
from infra.setup.logstore import compile_java

ROOT = Path(__file__).resolve().parents[3]
# Short-lived processes: start-up counts for more than speed later.
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8")
DEADLINE_SECS = 600


@dataclass(frozen=True)
class Driver:
    java: Java
    class_path: str
    environ: Mapping[str, str]

    def start(self, *arguments: object, stdin: int | None = None) -> "subprocess.Popen[str]":
        command = [self.java.java, *OPTIONS, "-cp", self.class_path, "LogStoreDriver", *map(str, arguments)]
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=self.environ, text=True, encoding="utf-8", **pipes)

    def race(self, store: str, log: str, versions: int, scratch: Path, settings: list[str]) -> list[list[int]]:
        """For each version, which of the two writers, 0 or 1, got a success."""
        shared = (versions, scratch / "turnstile")
        writers = [self.start("race", store, log, f"writer-{i}", *shared, i, *settings) for i in (0, 1)]
        try:
            told = [set(_finish(writer)) for writer in writers]
        finally:
            for writer in writers:
                writer.kill()
        return [[i for i in (0, 1) if f"won {version}" in told[i]] for version in range(versions)]


def _finish(writer: "subprocess.Popen[str]") -> list[str]:
    out, _ = writer.communicate(timeout=DEADLINE_SECS)
    assert writer.returncode == 0, f"a writer ended with status {writer.returncode} after {out[-100:]!r}"
    return out.splitlines()


@dataclass(frozen=True)
class Server:
    """A JVM that accepts several commands, which saves the start-up."""

    orders: IO[str]
    answers: IO[str]

    def ask(self, *order: object) -> list[str]:
        print(*order, sep="\t", file=self.orders, flush=True)
        lines = []
        while (line := self.answers.readline()) != ".\n":
            assert line, "the driver has ended"
            lines.append(line.rstrip("\n"))
        return lines


@contextmanager
def serving(driver: Driver) -> Iterator[Server]:
    process = driver.start("serve", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Server(process.stdin, process.stdout)
    finally:
        process.kill()
        process.communicate()


def compile_driver(classes: Path, environ: Mapping[str, str]) -> Driver:
    """`environ` is added to this process's environment: how to reach S3."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    folders = [Path(spark.origin).parent / "jars", ROOT / "jars"]
    assert (ROOT / "jars" / "blizzard-logstore.jar").exists(), "no log store in jars/: run `make setup`"
    java = find_jdk()
    compile_java(java, [Path(__file__).with_name("LogStoreDriver.java")], folders, classes)
    class_path = ":".join([str(classes), *(str(folder / "*") for folder in folders)])
    return Driver(java, class_path, {**variables(), **environ})
