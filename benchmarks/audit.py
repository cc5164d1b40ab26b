"""`python -m benchmarks.audit [FILES …]`: what `blizzard audit` takes for so many objects and their rows on S3.

Each size is audited with `--json` in a process of its own, on the stand-in at 30 ms a request. Prints one JSON object a
line: seconds, processor time of the audit and of the stand-in, the peak of the memory of the audit's processes, the
requests, and what S3 charges for these.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks.audit_world import PER_COMMIT, AuditWorld, Shape, make_world
from benchmarks.s3_stand_in import stand_in
from blizzard.environment import variables
from blizzard.prices.price_list import PriceList, read_prices

SIZES = (10_000, 100_000, 1_000_000)
LATENCY_SECS = 0.03
COMMAND = "import sys; from blizzard.cli import main; sys.exit(main())"
ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("files", nargs="*", type=int, default=SIZES, metavar="FILES")
    parser.add_argument("--per-commit", type=int, default=PER_COMMIT, help="files of a commit, which has one data file")
    parser.add_argument("--letters-every", type=int, default=0, help="of so many files one has a refused record")
    parser.add_argument("--latency-ms", type=float, default=LATENCY_SECS * 1000)
    options = parser.parse_args()
    for files in options.files:
        with tempfile.TemporaryDirectory() as folder:
            world = make_world(Path(folder), files, Shape(options.per_commit, options.letters_every))
            print(json.dumps(measure(world, Path(folder), options.latency_ms / 1000)), flush=True)


def measure(world: AuditWorld, folder: Path, latency_secs: float) -> dict[str, Any]:
    """Raises AssertionError if the audit does not find every object and row."""
    config = folder / "pipelines.yaml"
    source = {"uri": "s3://landing/", "pattern": "**", "schema": "id STRING"}
    pipeline = {"table_uri": "s3://lake/table", "sources": {"landing": source}}
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    buckets = {"landing": world.landing, "lake": world.lake}
    with stand_in(buckets, latency_secs=latency_secs) as server:
        served, began, used = server.cpu_secs(), time.monotonic(), children_cpu_secs()
        command = [sys.executable, "-c", COMMAND, "audit", "--json", str(config)]
        environ = {**variables(), **server.environment}
        with (folder / "report.json").open("w") as out, Popen(command, cwd=ROOT, env=environ, stdout=out) as process:
            peak = peak_bytes(process)
        secs = time.monotonic() - began
        (report,) = json.loads((folder / "report.json").read_text())
        assert (report["verdict"], report["committed"]) == ("good", world.files), report["notices"]
        assert report["rows"]["found"] == world.rows
        return {
            "files": world.files,
            "rows": report["rows"]["found"],
            "data_files": world.commits,
            "data_bytes": world.data_bytes,
            "secs": round(secs, 1),
            "cpu_secs": round(children_cpu_secs() - used, 1),
            "peak_mb": round(peak / 1e6),
            "server_cpu_secs": round(server.cpu_secs() - served, 1),
            "requests": server.requests(),
            "dollars": dollars(server.requests(), read_prices()),
        }


def dollars(requests: Mapping[str, int], prices: PriceList) -> float:
    """At the list prices of S3; DELETE is free."""
    read = requests.get("GET", 0) + requests.get("HEAD", 0)
    listed_or_written = requests.get("LIST", 0) + requests.get("PUT", 0)
    return read * prices["s3_get"] + listed_or_written * prices["s3_put_or_list"]


def children_cpu_secs() -> float:
    """Of those that have ended, and their own."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_bytes(process: "Popen[bytes]") -> int:
    """The highest sum of the memory of the process and its children, until it ends. Pages that they share count once
    for each."""
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(resident_bytes, [process.pid, *children_of(process.pid)])))
        time.sleep(0.05)
    return peak


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found + [child for each in found for child in children_of(each)]


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
