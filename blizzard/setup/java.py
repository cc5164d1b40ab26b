"""Finds a Java that Spark 4.1 supports, even if the default one is newer or older."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import SetupError

# Spark 4.1 supports 17 and 21. EMR runs 17, so 17 is preferred.
PREFERRED, ACCEPTED = 17, (17, 21)
JVM_FOLDER = Path("/usr/lib/jvm")


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int

    @property
    def javac(self) -> Path:
        return self.home / "bin" / "javac"

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def is_supported(self) -> bool:
        return self.major in ACCEPTED

    @property
    def is_jdk(self) -> bool:
        return self.javac.exists()

    def __str__(self) -> str:
        return f"Java {self.major}{'' if self.is_jdk else ' without javac'} in {self.home}"


def find_jdk(jvm_folder: Path = JVM_FOLDER) -> Java:
    """With a compiler: JAVA_HOME if it is supported, else the best of PATH and `jvm_folder`. Raises SetupError."""
    return _find(jvm_folder, compiler=True)


def find_java(jvm_folder: Path = JVM_FOLDER) -> Java:
    """As `find_jdk`, but a runtime is enough. Raises SetupError."""
    return _find(jvm_folder, compiler=False)


def _find(jvm_folder: Path, *, compiler: bool) -> Java:
    given = variables().get("JAVA_HOME")
    named = inspect(Path(given, "bin", "java")) if given else None
    if named is not None and named.is_supported and (named.is_jdk or not compiler):
        return named
    return choose([java for java in (named, *_others(jvm_folder)) if java is not None], compiler=compiler)


def _others(jvm_folder: Path) -> Iterable[Java | None]:
    on_path = shutil.which("java")
    if on_path:
        yield inspect(Path(on_path))
    for home in sorted(jvm_folder.glob("*")):
        yield inspect(home / "bin" / "java")


def choose(found: list[Java], *, compiler: bool) -> Java:
    """The first supported Java 17, else the first supported one. Raises SetupError with what was found instead."""
    fitting = [java for java in found if java.is_supported and (java.is_jdk or not compiler)]
    if fitting:
        return min(fitting, key=lambda java: java.major != PREFERRED)
    others = ", ".join(dict.fromkeys(map(str, found)))
    needed, package = ("a JDK 17 with javac", "jdk") if compiler else ("Java 17 or 21 for Spark", "jre")
    install = f"sudo apt install openjdk-17-{package}-headless (or 21), or set JAVA_HOME to one"
    raise SetupError(f"Blizzard needs {needed}, and found {others or 'no Java at all'}: {install}")


def inspect(java: Path) -> Java | None:
    """Version and home of this `java`, which may be a link or a script. None: it does not run."""
    return _from_release_file(java.resolve()) or _as_it_reports(java)


def _from_release_file(java: Path) -> Java | None:
    """Starting a JVM only to ask it takes a tenth of a second."""
    home = java.parent.parent
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    major = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return Java(home, int(major[1])) if major and java.exists() else None


def _as_it_reports(java: Path) -> Java | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"java\.home = (.+)", output)
    major = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    return Java(Path(home[1].strip()), int(major[1])) if home and major else None
