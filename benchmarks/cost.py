"""What a core processes per second, and the estimated cost of a million files on EMR Serverless at that rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.result import Result, Table
from benchmarks.stats import Spread, number
from blizzard.prices.price_list import read_prices

FILES = 1_000_000
PRICES = read_prices()
GET = PRICES["s3_get"]
"""US dollars for one GET on S3, list price."""
VCPU_HOUR, GB_HOUR = PRICES["emr_vcpu_hour"], PRICES["emr_gb_hour"]
"""US dollars, us-east-1, ARM64, list prices without discounts."""


@dataclass(frozen=True, slots=True)
class Worker:
    vcpus: int
    gb: int


DRIVER, EXECUTOR = Worker(2, 7), Worker(4, 16)
"""The template's defaults with Spark's memory overhead, rounded up to the sizes that EMR Serverless bills."""
FROM_S3 = ", from S3"


@dataclass(frozen=True, slots=True)
class Bill:
    """Running time in hours, and billed vCPU-hours and GB-hours of driver and executors."""

    hours: float
    vcpu_hours: float
    gb_hours: float

    @property
    def dollars(self) -> float:
        return self.vcpu_hours * VCPU_HOUR + self.gb_hours * GB_HOUR


def bill(files: int, files_per_sec_per_core: float, executors: int = 1) -> Bill:
    """Assumes that a vCPU of EMR is as fast as a core of the measuring machine, and perfect scaling with executors."""
    hours = files / (files_per_sec_per_core * EXECUTOR.vcpus * executors) / 3600
    vcpus, gb = (getattr(DRIVER, kind) + executors * getattr(EXECUTOR, kind) for kind in ("vcpus", "gb"))
    return Bill(hours, hours * vcpus, hours * gb)


@dataclass(frozen=True, slots=True)
class Rate:
    """Measured rates of one core, for the kind of files that `files` describes; MB are 10^6 bytes."""

    files: str
    from_s3: bool
    per_sec: float
    records: float
    stored_mb: float
    json_mb: float


def rates(machine: Mapping[str, Any], results: Sequence[Result]) -> Iterator[Rate]:
    """Rates of Blizzard for the files of big and small, from the local disk and from S3, as far as measured."""
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
    """Rates of one core; None if nothing was measured."""
    rows = [
        (rate.files, *map(number, (rate.per_sec, rate.records, rate.stored_mb, rate.json_mb)))
        for rate in rates(machine, results)
    ]
    columns = ("one core, files of", "files/s", "records/s", "MB/s, compressed", "MB/s of JSON")
    return Table(columns, tuple(rows)) if rows else None


def cost(machine: Mapping[str, Any], results: Sequence[Result]) -> Table | None:
    """Costs by kind of file; None if nothing was measured. On EMR files come from S3. The rows of the local disk, which
    have no GETs, only show what S3 adds."""
    rows = []
    for rate in rates(machine, results):
        found = bill(FILES, rate.per_sec)
        gets = FILES * GET if rate.from_s3 else 0.0
        shown = (rate.per_sec, found.hours, found.vcpu_hours, found.gb_hours, found.dollars, gets, found.dollars + gets)
        rows.append((rate.files, *map(number, shown)))
    columns = (
        "a million files of",
        "files/s per core",
        "hours",
        "vCPU-hours",
        "GB-hours",
        "workers, $",
        "GETs, $",
        "total, $",
    )
    return Table(columns, tuple(rows)) if rows else None
