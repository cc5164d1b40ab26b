"""Whether a contender did the work: what lies in its table, read by another engine than wrote it."""

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from benchmarks.data import Dataset


class WrongResult(Exception):
    """A contender's table does not hold what it should. There is no time for wrong work."""


@dataclass(frozen=True, slots=True)
class Found:
    rows: int
    checksum: int
    commits: int | None


def found_in(table: str) -> Found:
    """Of a Delta table."""
    delta = DeltaTable(table)
    rows, checksum = _counted(delta.to_pyarrow_dataset())
    return Found(rows, checksum, delta.version() + 1)


def found_in_parquet(folder: str) -> Found:
    """Of plain files, whatever engine they are of."""
    rows, checksum = _counted(ds.dataset(folder, format="parquet"))
    return Found(rows, checksum, None)


def _counted(dataset: Any) -> tuple[int, int]:
    rows = checksum = 0
    for batch in dataset.to_batches(columns=["n"]):
        rows += batch.num_rows
        checksum += pc.sum(batch.column("n")).as_py() or 0
    return rows, checksum


def expect(who: str, data: Dataset, found: Found, commits: int | None) -> None:
    """Raises WrongResult."""
    wanted = Found(data.rows, data.checksum, commits)
    if found != wanted:
        raise WrongResult(f"{who} on {data.name}: expected {wanted}, found {found}")
