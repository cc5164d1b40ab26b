"""Stands in for EMR's image: Spark, its jars, and a Python with only its packages."""

import sys
import sysconfig
from pathlib import Path

from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.platform_packages import link_packages

PACKAGES = ("numpy", "pandas", "pyarrow", "pytz", "dateutil", "six.py", "tzdata")
OWN_JAR = "blizzard-logstore.jar"
DELTA = ("io.delta_", "io.unitycatalog_", "com.fasterxml.jackson.datatype_")


def emr_image(folder: Path) -> Path:
    """Make `spark/`, `jars/` (on the class path), `delta/` (only for runs that name it), `packages/` and `python3`."""
    python = folder / "python3"
    if python.exists():
        return folder
    for name in ("jars", "delta"):
        (folder / name).mkdir(parents=True)
    for jar in sorted((CHECKOUT / "jars").glob("*.jar")):
        if jar.name != OWN_JAR:
            kind = "delta" if jar.name.startswith(DELTA) else "jars"
            (folder / kind / jar.name).symlink_to(jar)
    link_packages(folder / "packages", PACKAGES)
    _link_spark(folder / "spark")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
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
