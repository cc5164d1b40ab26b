"""The generated blocks of docs/sizing.md: how large a job has to be, computed from the measured rates."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.core_scaling import on_most_cores
from benchmarks.cost import EXECUTOR, Rate, rates
from benchmarks.report import pipes
from benchmarks.result import Result, Table
from benchmarks.stats import number

MB_AN_HOUR = 200_000
FILES_KB = (1_000, 100, 10, 1)
BATCH_FILES = 25_000
DRIVER_BATCH_SECS, DRIVER_FILE_SECS = 0.2, 26e-6
"""Time of the driver for a batch (plan, receipt, commit) and for each of its files, from logs of `big` and `small`."""
BUSY_SHARE = 0.5
"""Share of an hour in which executors work. The rest is for peaks, start-up, and the driver's part of each batch."""
HOUR_SECS = 3600


@dataclass(frozen=True, slots=True)
class CoreRate:
    """What one core processes per second, rounded down: nearly empty files, or compressed MB (10^6 bytes)."""

    where: str
    files: float
    stored_mb: float


def core_rates(machine: Mapping[str, Any], results: Sequence[Result]) -> list[CoreRate]:
    """For the local disk and for S3, each only if both small and large files were measured."""
    found = [*rates(machine, [result for result in on_most_cores(results) if result.machine is None])]
    both = (("a local disk", [rate for rate in found if not rate.from_s3]), ("S3", [r for r in found if r.from_s3]))
    return [CoreRate(where, _most(some, "per_sec"), _most(some, "stored_mb")) for where, some in both if len(some) > 1]


def _most(some: Sequence[Rate], kind: str) -> float:
    return _down(max(getattr(rate, kind) for rate in some))


def _down(value: float) -> float:
    """Rounds down to two significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.floor(value / unit) * unit, 9)


def as_sizing(machine: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The rates, and an example with the last of them (S3); no example if there are no rates."""
    found = core_rates(machine, results)
    columns = ("rate of one core, rounded down", "files/s", "MB/s, compressed")
    rows = ((f"from {rate.where}", number(rate.files), number(rate.stored_mb)) for rate in found)
    lines = [*pipes(Table(columns, tuple(rows))), "", *(_example(found[-1]) if found else [])]
    return "\n".join(lines) + "\n"


def _example(rate: CoreRate) -> Iterator[str]:
    yield f"Example: {MB_AN_HOUR:,} MB an hour, gzipped, from {rate.where}, for different file sizes:"
    yield ""
    columns = (
        "files of",
        "files an hour",
        "core-seconds for files",
        "core-seconds for bytes",
        "cores at full load",
        f"`MaxExecutors`, {EXECUTOR.vcpus} vCPUs each",
        f"batches of {BATCH_FILES:,} files",
        "driver seconds",
    )
    yield from pipes(Table(columns, tuple(_row(rate, kb) for kb in FILES_KB)))


def _row(rate: CoreRate, file_kb: int) -> tuple[str, ...]:
    files = MB_AN_HOUR * 1000 // file_kb
    by_files, by_bytes = files / rate.files, MB_AN_HOUR / rate.stored_mb
    cores = (by_files + by_bytes) / HOUR_SECS
    batches = -(-files // BATCH_FILES)
    driver_secs = batches * DRIVER_BATCH_SECS + files * DRIVER_FILE_SECS
    executors = math.ceil(cores / EXECUTOR.vcpus / BUSY_SHARE) if driver_secs < HOUR_SECS else 0
    return (
        f"{file_kb:,} kB",
        *(number(value) for value in (files, by_files, by_bytes, cores)),
        f"{executors}" if executors else "none: the driver is the limit",
        *(number(value) for value in (batches, driver_secs)),
    )


def as_driver(machine: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The driver's share of a run of `big`, projected to more executors. Empty if the result has no parts."""
    big = next((one for one in on_most_cores(results) if one.name == "big" and one.raw.get("parts")), None)
    parts = big.raw["parts"].get("blizzard") if big else None
    if not parts or not big:
        return ""
    driver_secs = parts["total"] - parts["read"] - parts["write"]
    core_secs = (parts["read"] + parts["write"]) * (big.cores or machine["cores"])
    cores = 8 * EXECUTOR.vcpus
    share = driver_secs / (driver_secs + core_secs / cores)
    wanted_secs = cores * driver_secs * (1 / 0.1 - 1)
    records = big.raw["data"]["records"] * wanted_secs / core_secs
    return (
        f"A run of `big` (steps on the page Performance) takes {number(parts['total'])} seconds. Of these, "
        f"{number(driver_secs)} are the driver's; reading and writing are {number(core_secs)} core-seconds. On 8 "
        f"executors of {EXECUTOR.vcpus} vCPUs such a batch would spend {share:.0%} of its time on the driver. To "
        f"reduce that to a tenth, a batch needs {number(wanted_secs)} core-seconds, {records:,.0f} records of that "
        "kind.\n"
    )
