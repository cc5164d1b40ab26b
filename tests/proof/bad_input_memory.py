"""Reads one hostile file in a process of its own, and says what became of it and how much memory that took."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from spark_job.decode import Limits
from tests.proof.bad_input_corpus import GOOD, memory_bombs
from tests.proof.bad_input_reader import LIMITS, Parts, read_batch
from tests.proof.campaign import Failed

MOST_BYTES = 192 << 20
"""More than what the same process takes for a small file. Without a bound the first bomb takes twice its 128 MiB."""
SECS = 120


def check_memory(folder: Path, limits: Limits) -> int:
    """The peak in bytes, of the worst bomb. Raises Failed."""
    worst = 0
    for name, body in memory_bombs():
        (folder / name).write_bytes(body)
        command = [sys.executable, "-m", __spec__.name, str(folder), name, json.dumps(_values(limits))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECS, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"{name}: not read after {SECS} s") from None
        if done.returncode:
            raise Failed(f"{name}: the process that reads it ended with {done.returncode}: {done.stderr[-500:]}")
        said = json.loads(done.stdout)
        worst = max(worst, said["bytes"])
        if said["bytes"] > MOST_BYTES:
            raise Failed(
                f"{name} of {len(body)} bytes takes {said['bytes'] >> 20} MiB; expected {MOST_BYTES >> 20} at most"
            )
        if not said["error"] or "limit max_" not in said["error"]:
            raise Failed(f"{name}: {said['error']}; expected a limit's name")
    return worst


def _values(limits: Limits) -> Mapping[str, int]:
    return {"max_record_bytes": limits.max_record_bytes, "max_file_bytes": limits.max_file_bytes}


def _peak_bytes() -> int:
    """Of this process alone: `ru_maxrss` begins at the memory of the process that started it."""
    (kib,) = re.findall(r"^VmHWM:\s+([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kib) * 1024


def _read(folder: Path, name: str, limits: Limits) -> Mapping[str, object]:
    read_batch(folder / "small", {"small.ndjson": GOOD * 1_000}, Parts())
    before = _peak_bytes()
    found = read_batch(folder / f"table-{name}", {name: (folder / name).read_bytes()}, replace(Parts(), limits=limits))
    return {"bytes": _peak_bytes() - before, "error": found.outcomes[0].error}


if __name__ == "__main__":
    given = Limits(**json.loads(sys.argv[3])) if len(sys.argv) > 3 else LIMITS
    print(json.dumps(_read(Path(sys.argv[1]), sys.argv[2], given)))
