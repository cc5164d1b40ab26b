"""What a million files would cost on EMR Serverless, from what was measured here. Arithmetic, not a bill."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import number
from benchmarks.result import Result, Table

FILES = 1_000_000
VCPU_HOUR, GB_HOUR = 0.042094, 0.004628
"""US dollars, us-east-1, ARM64, list prices without any discount."""


@dataclass(frozen=True, slots=True)
class Worker:
    vcpus: int
    gb: int


DRIVER, EXECUTOR = Worker(2, 7), Worker(4, 16)
"""The template's defaults, Spark's overhead included, rounded up to what EMR Serverless bills."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Hours of one executor beside the driver, and dollars."""

    hours: float
    vcpu_hours: float
    gb_hours: float

    @property
    def dollars(self) -> float:
        return self.vcpu_hours * VCPU_HOUR + self.gb_hours * GB_HOUR


def bill(files: int, files_per_sec_per_core: float, executors: int = 1) -> Bill:
    """As if a vCPU there did what a core does here. More executors only make it shorter, but for the driver's share."""
    hours = files / (files_per_sec_per_core * EXECUTOR.vcpus * executors) / 3600
    vcpus, gb = (getattr(DRIVER, kind) + executors * getattr(EXECUTOR, kind) for kind in ("vcpus", "gb"))
    return Bill(hours, hours * vcpus, hours * gb)


def cost(machine: Mapping[str, Any], results: Sequence[Result]) -> Table | None:
    """For files such as those of big and of small; None when neither was measured."""
    rows = []
    for result in results:
        if result.name not in ("big", "small") or "Blizzard" not in result.bars:
            continue
        facts = result.raw["data"]
        rate = facts["files"] / result.bars["Blizzard"] / machine["cores"]
        found = bill(FILES, rate)
        kilobytes, records = facts["stored_bytes"] / facts["files"] / 1000, facts["records"] // facts["files"]
        shown = (rate, found.hours, found.vcpu_hours, found.gb_hours, found.dollars)
        rows.append((f"{number(kilobytes)} kB, {records:,} records", *map(number, shown)))
    columns = ("a million files of", "files/s a core", "hours", "vCPU-hours", "GB-hours", "US dollars")
    return Table(columns, tuple(rows)) if rows else None
