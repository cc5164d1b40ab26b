"""The measuring machine: processor, cores, memory, versions, background load."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.stats import Spread

PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "isal", "orjson", "obstore", "boto3")
TICKS = os.sysconf("SC_CLK_TCK")


def machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": _cpu(),
        "cores": cores,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def load() -> float:
    """Load average of the last minute."""
    return os.getloadavg()[0]


@dataclass(frozen=True, slots=True)
class BackgroundLoad:
    """`load()` before a measurement, and the share of the cores that other processes used during it."""

    load_before: float
    others_share: float


def background_load_note(found: Mapping[str, Sequence[BackgroundLoad]]) -> str:
    """One note for the report; keys of `found` are what was measured."""
    told = (
        f"{what}, {Spread.of([one.load_before for one in some])} and {Spread.of([one.others_share for one in some])}"
        for what, some in found.items()
    )
    measured = "Load average before, and CPU share of other processes during the measurement"
    return f"{measured}: {'; '.join(told)}."


def busy_secs() -> float:
    """CPU seconds of all cores together since the machine was started."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def _cpu() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
