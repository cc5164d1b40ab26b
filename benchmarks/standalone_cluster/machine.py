"""What a machine of the cluster has: Spark, a Python without packages, and, if wanted, the job's archive unpacked."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from blizzard.environment import variables
from infra.local.jobs.emr_image import emr_image
from infra.local.processes.unpacked import unpacked
from infra.package.cluster import HERE

KEPT = ("JAVA_HOME", "TMPDIR", "HOME")


def installed(archive: Path) -> Path:
    """The archive as a folder, as a machine's owner would install it."""
    return unpacked(archive.read_bytes())


def spark_home(folder: Path) -> Path:
    """With `bin/`, where the only Pythons are, next to it."""
    image = emr_image(folder)
    python = image / "bin" / f"python{HERE}"
    if not python.exists():
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)
    return image / "spark"


def machine_environment(home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Of a worker and its executors: `more`, such as credentials, and nothing of this process's own that names the
    checkout."""
    kept = {name: value for name, value in variables().items() if name in KEPT}
    path = variables().get("PATH", os.defpath)
    return {
        **kept,
        **more,
        "PATH": f"{home.parent / 'bin'}:{path}",
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": "2.13",  # as Spark's own scripts set it
        "LANG": "C.UTF-8",
    }
