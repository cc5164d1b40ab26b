"""Which jars Spark needs beside its own.

`python -m infra.setup.jars --update` resolves PACKAGES with Spark's own Ivy, and writes blizzard/setup/jars.lock.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.jar_lock import LOCK, Jar, write_lock
from blizzard.setup.java import Java, find_jdk
from blizzard.setup.stamps import file_sha256
from infra.setup.venv import Venv

ROOT = Path(__file__).resolve().parents[2]
AWS_SDK = "2.29.52"
PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.2.0",
    "org.apache.hadoop:hadoop-aws:3.4.2",
    # The modules that S3A uses. hadoop-aws itself depends on the bundle of all services, 640 MB.
    f"software.amazon.awssdk:s3-transfer-manager:{AWS_SDK}",
    f"software.amazon.awssdk:sts:{AWS_SDK}",
    f"software.amazon.awssdk:apache-client:{AWS_SDK}",
    f"software.amazon.awssdk:netty-nio-client:{AWS_SDK}",
)
# Spark ships all of these except the bundle. jars/ precedes Spark's own jars on the class path, where an older Jackson,
# Netty or slf4j breaks it.
EXCLUDES = (
    "software.amazon.awssdk:bundle",
    "com.fasterxml.jackson.core:*",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "io.netty:*",
    "org.apache.hadoop:hadoop-client-*",
    "org.apache.httpcomponents:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:snappy-java",
)
LAST_LINES = 15


def resolve(venv: Venv, java: Java, ivy: Path) -> Path:
    """Resolve PACKAGES by submitting an empty program to Spark. Returns the folder of jars. Raises SetupError."""
    ivy.mkdir(parents=True, exist_ok=True)
    # Jars of an earlier resolution must not be taken for this one's.
    shutil.rmtree(ivy / "jars", ignore_errors=True)
    program = ivy / "nothing.py"
    program.touch()
    submit = [str(venv.pyspark_home / "bin" / "spark-submit"), "--conf", f"spark.jars.ivy={ivy}"]
    packages = ["--packages", ",".join(PACKAGES), "--exclude-packages", ",".join(EXCLUDES)]
    command, environ = [*submit, *packages, str(program)], _environ(venv, java)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise SetupError(
            f"Spark could not get its jars from Maven Central: is it reachable from here? Last lines:\n{tail}"
        )
    return ivy / "jars"


def _environ(venv: Venv, java: Java) -> dict[str, str]:
    inherited = {name: value for name, value in variables().items() if name != "SPARK_CONF_DIR"}
    own = {"SPARK_HOME": venv.pyspark_home, "JAVA_HOME": java.home, "PYSPARK_PYTHON": venv.python}
    return inherited | {name: str(value) for name, value in own.items()}


def resolved_jars(ivy: Path) -> list[Jar]:
    """The jars in Ivy's jars folder, with their coordinates from the paths in its cache."""
    # cache/<group>/<artifact>/<jars or bundles>/<artifact>-<version>.jar
    return [_jar(cached, ivy / "jars") for cached in sorted(ivy.glob("cache/*/*/*/*.jar"))]


def _jar(cached: Path, folder: Path) -> Jar:
    group, name = cached.parts[-4], cached.parts[-3]
    version = cached.stem.removeprefix(f"{name}-")
    file = f"{group}_{name}-{version}.jar"
    return Jar(file, file_sha256(folder / file), f"{group}:{name}:{version}")


def shipped_with_spark(jars: list[Jar], pyspark_home: Path) -> list[Jar]:
    """Those whose artifact Spark ships too, in any version."""
    own = {re.sub(r"-\d[\w.-]*\.jar$", "", file.name) for file in (pyspark_home / "jars").glob("*.jar")}
    return [jar for jar in jars if jar.coordinate.split(":")[1] in own]


def update(root: Path) -> None:
    venv = Venv(root)
    ivy = root / ".cache" / "ivy"
    # Jars of an earlier resolution must not get into the lock.
    shutil.rmtree(ivy, ignore_errors=True)
    resolve(venv, find_jdk(), ivy)
    jars = resolved_jars(ivy)
    duplicates = shipped_with_spark(jars, venv.pyspark_home)
    if duplicates:
        names = ", ".join(jar.coordinate for jar in duplicates)
        raise SetupError(f"Spark ships these itself: {names}. Add them to EXCLUDES in infra/setup/jars.py")
    LOCK.write_text(write_lock(jars))
    print(f"{LOCK.relative_to(root)}: {len(jars)} jars")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.setup.jars", description="Jars that Spark does not ship.")
    parser.add_argument("--update", action="store_true", required=True, help="update jars.lock from PACKAGES")
    parser.parse_args()
    try:
        update(ROOT)
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
