"""Verification of a contender's table: rows and checksums, read by another engine than the one that wrote it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from benchmarks import checksum
from benchmarks.data import Dataset


class WrongResult(Exception):
    """A contender's table does not hold what it should."""


@dataclass(frozen=True, slots=True)
class Found:
    """`checksums`: by column (`benchmarks.checksum`). `commits`: None for plain Parquet files."""

    rows: int
    checksums: Mapping[str, int]
    commits: int | None


def found_in(table: str, columns: Iterable[str] = ("n",)) -> Found:
    delta = DeltaTable(table)
    return Found(*_counted(delta.to_pyarrow_dataset(), columns), delta.version() + 1)


def found_in_parquet(folder: str, columns: Iterable[str] = ("n",)) -> Found:
    """For contenders that write plain Parquet files."""
    return Found(*_counted(ds.dataset(folder, format="parquet"), columns), None)


def _counted(dataset: Any, columns: Iterable[str]) -> tuple[int, Mapping[str, int]]:
    rows, sums = 0, dict.fromkeys(columns, 0)
    for batch in dataset.to_batches(columns=[*sums]):
        rows += batch.num_rows
        sums = checksum.add(sums, {name: checksum.of_array(batch.column(name)) for name in sums})
    return rows, sums


def expect(who: str, data: Dataset, found: Found, commits: int | None) -> None:
    """Raises WrongResult if rows, checksums or commits differ."""
    wanted = Found(data.rows, data.checksums, commits)
    if found != wanted:
        raise WrongResult(f"{who} on {data.name}: expected {wanted}, found {found}")
