"""Packs what the executors of a Spark cluster need: the job and its packages, for one Python and one architecture.

`python -m infra.package.cluster` packs them for this Python and this machine. docs/clusters.md says how to ship them.
"""

import argparse
import platform
import sys
from pathlib import Path

from blizzard.errors import BlizzardError
from infra.package.archives import make_tar_gz
from infra.package.build import ARCHITECTURES, MACHINES, ROOT, job_files

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHONS = ("3.11", "3.12", "3.13")


def cluster_archive(folder: Path, *, python: str = HERE, machine: str | None = None, level: int | None = None) -> Path:
    """Writes the archive into the folder, which is made. `machine` is Linux's name, None: of this one. Raises
    PackageError."""
    machine = machine or MACHINES[ARCHITECTURES[platform.machine().lower()]]
    files = job_files(ROOT, (ROOT / "requirements.lock").read_text(), machine, python)
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"blizzard-python{python}-{machine}.tar.gz"
    partial = archive.with_suffix(".partial")
    partial.write_bytes(make_tar_gz(files, level))
    return partial.replace(archive)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.package.cluster", description=__doc__)
    here = platform.machine().lower()
    parser.add_argument(
        "--python", default=HERE, choices=PYTHONS, help="of driver and executors (default: %(default)s)"
    )
    parser.add_argument("--arch", default=here, type=str.lower, choices=ARCHITECTURES, help="of the cluster's machines")
    options = parser.parse_args()
    try:
        machine = MACHINES[ARCHITECTURES[options.arch]]
        archive = cluster_archive(ROOT / "build" / "cluster", python=options.python, machine=machine)
    except BlizzardError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    print(archive.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
