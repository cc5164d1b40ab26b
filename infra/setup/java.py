"""Finds a JDK that Spark 4.1 supports, even if the default Java is newer or older."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import variables
from infra.setup.errors import SetupError

# Spark 4.1 supports 17 and 21. EMR runs 17, so 17 is preferred.
PREFERRED, ACCEPTED = 17, (17, 21)
JVM_FOLDER = Path("/usr/lib/jvm")
INSTALL = "sudo apt install openjdk-17-jdk-headless (or openjdk-21-jdk-headless), or set JAVA_HOME to one"


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
        return self.major in ACCEPTED and self.javac.exists()

    def __str__(self) -> str:
        return f"Java {self.major}{'' if self.javac.exists() else ' without javac'} in {self.home}"


def find_jdk(jvm_folder: Path = JVM_FOLDER) -> Java:
    """JAVA_HOME if it is supported, else the best of PATH and `jvm_folder`. Raises SetupError."""
    given = variables().get("JAVA_HOME")
    named = inspect(Path(given, "bin", "java")) if given else None
    if named is not None and named.is_supported:
        return named
    return choose([java for java in (named, *_others(jvm_folder)) if java is not None])


def _others(jvm_folder: Path) -> Iterable[Java | None]:
    on_path = shutil.which("java")
    if on_path:
        yield inspect(Path(on_path))
    for home in sorted(jvm_folder.glob("*")):
        yield inspect(home / "bin" / "java")


def choose(found: list[Java]) -> Java:
    """The first supported Java 17, else the first supported one. Raises SetupError with what was found instead."""
    supported = sorted((java for java in found if java.is_supported), key=lambda java: java.major != PREFERRED)
    if supported:
        return supported[0]
    others = ", ".join(dict.fromkeys(map(str, found)))
    raise SetupError(f"Blizzard needs a JDK 17 with javac, and found {others or 'no Java at all'}: {INSTALL}")


def inspect(java: Path) -> Java | None:
    """Version and home as this `java` reports them: it may be a link or a script. None: it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr
    except OSError:
        return None
    home = re.search(r"java\.home = (.+)", output)
    major = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    return Java(Path(home[1].strip()), int(major[1])) if home and major else None


def write_spark_env(java: Java, pyspark_home: Path, more: str = "") -> None:
    """Write Spark's start script, so that this pyspark always uses `java`. `more`: further lines of it."""
    script = pyspark_home / "conf" / "spark-env.sh"
    text = (
        "# Written by the set-up. The JDK that it found, and an address that needs no lookup of the machine's name.\n"
        f"JAVA_HOME='{java.home}'\n"
        'SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"\n'
        f"{more}"
    )
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
