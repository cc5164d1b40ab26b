"""`make package`: packs the functions and the job into build/."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from blizzard.errors import BlizzardError
from infra.package.build import ARCHITECTURES, MACHINES, ROOT, package
from infra.package.manifest import BuildManifest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.package", description=__doc__)
    parser.add_argument(
        "--arch",
        default="arm64",
        type=str.lower,
        choices=ARCHITECTURES,
        help="architecture of the job's machines (default: arm64)",
    )
    options = parser.parse_args()
    try:
        manifest = package(ARCHITECTURES[options.arch])
    except BlizzardError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    show(manifest, ROOT / "build")
    return 0


def show(manifest: BuildManifest, build: Path) -> None:
    rows = [
        (
            artifact.name,
            str((build / artifact.file).relative_to(ROOT)),
            f"{artifact.size_bytes:,}",
            artifact.sha256[:16],
        )
        for artifact in manifest.artifacts.values()
    ]
    heads = ("artifact", "file", "bytes", "sha256")
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(*heads, title=f"build/ for {MACHINES[manifest.architecture]}")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
