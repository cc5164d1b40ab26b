"""`make setup`: makes a checkout ready to run. Does only what is missing; other make targets run it first."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import ConfigError, SetupError
from blizzard.setup.download import MAVEN_CENTRAL, REPOSITORY_VARIABLE, checked_repository
from blizzard.setup.file_lock import locked
from blizzard.setup.jar_folder import JarFolder
from blizzard.setup.java import Java, find_jdk
from infra.setup.class_archive import RUNS, ClassArchive
from infra.setup.logstore import LogStoreJar
from infra.setup.spark_env import write_spark_env
from infra.setup.venv import Venv

EXIT_MISSING, EXIT_INTERRUPTED = 2, 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="infra/setup/run")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--rebuild-for-this-python", action="store_true")
    parser.add_argument("--without-java", action="store_true")
    options = parser.parse_args()
    try:
        set_up(options.root, this_python=options.rebuild_for_this_python, without_java=options.without_java)
    except (SetupError, ConfigError) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return EXIT_MISSING
    except KeyboardInterrupt:
        print("set-up: interrupted; the next run continues from here", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def set_up(root: Path, *, this_python: bool, without_java: bool = False) -> None:
    """`without_java`: only what `blizzard` with the local engine needs."""
    # First, because it is quick: a missing JDK should be reported before minutes of installing packages.
    java = None if without_java else find_jdk()
    venv = Venv(root)
    venv.refuse_link()
    # Concurrent set-ups of one checkout would delete each other's files.
    with locked(root / ".cache" / "setup.lock"):
        if venv.needs_packages(this_python=this_python):
            with _step("packages into .venv (Spark alone is 450 MB; a minute or more)"):
                venv.install_packages()
        if venv.needs_project():
            with _step("this project into .venv"):
                venv.install_project()
        if java is not None:
            _set_up_spark(root, venv, java)


def _set_up_spark(root: Path, venv: Venv, java: Java) -> None:
    jars, log_store = JarFolder(root / "jars"), LogStoreJar(root)
    archive = ClassArchive(root)
    write_spark_env(java, venv.pyspark_home, archive.settings())
    if not jars.is_complete():
        repository = checked_repository(variables().get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL)
        with _step("jars of Delta and S3A into jars/ (25 MB)"):
            jars.fill(repository)
    if not log_store.is_current():
        with _step(f"log store, compiled with Java {java.major}"):
            log_store.make(java, venv.pyspark_home)
    if not archive.is_current(java, log_store.file):
        with _step("classes of Spark and Delta into one archive, for quicker starts (a minute or more)"):
            _make_archive(archive, java, log_store.file, venv.python)
    runs = ClassArchive(root, RUNS)
    if not runs.is_current(java, log_store.file):
        with _step("the same for job runs of the local AWS (a minute or less)"):
            _make_archive(runs, java, log_store.file, venv.python)


def _make_archive(archive: ClassArchive, java: Java, log_store: Path, python: Path) -> None:
    """A failure is only reported: without the archive everything works, only slower."""
    try:
        archive.make(java, log_store, python)
    except SetupError as error:
        print(f"set-up: skipped the archive of classes, so Spark starts slower: {error}", file=sys.stderr)


@contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"set-up: {what} …", flush=True)
    started = time.monotonic()
    yield
    print(f"set-up: … {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
