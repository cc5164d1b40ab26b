"""What a core does in a second, and what a million files would cost on EMR Serverless at that rate. Arithmetic on what
was measured here, not a bill."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.result import Result, Table
from benchmarks.stats import Spread, number

FILES = 1_000_000
GET = 0.0000004
"""US dollars for reading one object of S3, list price."""
VCPU_HOUR, GB_HOUR = 0.042094, 0.004628
"""US dollars, us-east-1, ARM64, list prices without any discount."""


@dataclass(frozen=True, slots=True)
class Worker:
    vcpus: int
    gb: int


DRIVER, EXECUTOR = Worker(2, 7), Worker(4, 16)
"""The template's defaults, Spark's overhead included, rounded up to what EMR Serverless bills."""
FROM_S3 = ", from S3"


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


@dataclass(frozen=True, slots=True)
class Rate:
    """What one core did in a second, of files such as `files` says; MB are 10^6 bytes."""

    files: str
    from_s3: bool
    per_sec: float
    records: float
    stored_mb: float
    json_mb: float


def rates(machine: Mapping[str, Any], results: Sequence[Result]) -> Iterator[Rate]:
    """Of Blizzard, for files such as those of big and of small, from the local disk and from S3, as far as these were
    measured."""
    for result in results:
        if result.name in ("big", "small") and "Blizzard" in result.bars:
            yield _rate("", result.raw["data"], result.bars["Blizzard"] * (result.cores or machine["cores"]))
        for name in ("big", "small") if result.name == "s3" else ():
            measured = result.raw[name]
            warm = Spread.of(measured["contenders"]["s3"]["warm_secs"]).median
            yield _rate(FROM_S3, measured["data"], warm * (result.cores or machine["cores"]))


def _rate(where: str, facts: Mapping[str, int], core_secs: float) -> Rate:
    kilobytes, records = facts["stored_bytes"] / facts["files"] / 1000, facts["records"] // facts["files"]
    return Rate(
        f"{number(kilobytes)} kB, {records:,} records{where}",
        bool(where),
        facts["files"] / core_secs,
        facts["records"] / core_secs,
        facts["stored_bytes"] / 1e6 / core_secs,
        facts["raw_bytes"] / 1e6 / core_secs,
    )


def core(machine: Mapping[str, Any], results: Sequence[Result]) -> Table | None:
    """What a core does; None when neither was measured."""
    rows = [
        (rate.files, *map(number, (rate.per_sec, rate.records, rate.stored_mb, rate.json_mb)))
        for rate in rates(machine, results)
    ]
    columns = ("a core, files of", "files/s", "records/s", "MB/s, compressed", "MB/s of JSON")
    return Table(columns, tuple(rows)) if rows else None


def cost(machine: Mapping[str, Any], results: Sequence[Result]) -> Table | None:
    """What files such as those cost; None when neither was measured. On EMR files come from S3, so a rate of the local
    disk shows only what S3 adds; it has no GETs."""
    rows = []
    for rate in rates(machine, results):
        found = bill(FILES, rate.per_sec)
        gets = FILES * GET if rate.from_s3 else 0.0
        shown = (rate.per_sec, found.hours, found.vcpu_hours, found.gb_hours, found.dollars, gets, found.dollars + gets)
        rows.append((rate.files, *map(number, shown)))
    columns = (
        "a million files of",
        "files/s a core",
        "hours",
        "vCPU-hours",
        "GB-hours",
        "workers, $",
        "GETs, $",
        "in all, $",
    )
    return Table(columns, tuple(rows)) if rows else None
