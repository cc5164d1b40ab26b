"""Stands in for EMR's image: Spark, its jars, and a Python with only its packages."""

import sys
import sysconfig
from pathlib import Path

from infra.local.processes.platform_packages import link_packages

PACKAGES = ("numpy", "pandas", "pyarrow", "pytz", "dateutil", "six.py", "tzdata")
PYTHONS = ("python3", "python3.11")
OWN_JAR = "blizzard-logstore.jar"
DELTA = ("io.delta_", "io.unitycatalog_", "com.fasterxml.jackson.datatype_")


def class_path(jars: Path) -> str:
    """The jars of `jars` that are on EMR's class path; each by name, since the archive of classes needs their order."""
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith((*DELTA, OWN_JAR)))


def delta_jars(jars: Path) -> list[Path]:
    """Those that are only for runs that name them."""
    return sorted(jar for jar in jars.glob("*.jar") if jar.name.startswith(DELTA))


def emr_image(folder: Path) -> Path:
    """Make `spark/`, `packages/` and `bin/`, with each Python of the image."""
    if (folder / "bin").exists():
        return folder
    link_packages(folder / "packages", PACKAGES)
    _link_spark(folder / "spark")
    made = folder / "bin.partial"
    made.mkdir()
    for name in PYTHONS:
        (made / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        (made / name).chmod(0o755)
    made.rename(folder / "bin")
    return folder


def _link_spark(folder: Path) -> None:
    """Link Spark, with folders in place of its Python archives: each process would compile an archive again, for half a
    second. A folder is compiled once."""
    installed = Path(sysconfig.get_path("purelib"))
    folder.mkdir()
    for part in (installed / "pyspark").iterdir():
        if part.name != "python":
            (folder / part.name).symlink_to(part)
    for archive in (installed / "pyspark" / "python" / "lib").glob("*.zip"):
        link_packages(folder / "python" / "lib" / archive.name, [archive.name.partition("-")[0].removesuffix(".zip")])
