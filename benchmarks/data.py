"""The data sets that contenders read: generated once for each scale, in parallel, and cached in `.cache/bench`."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from benchmarks import checksum
from benchmarks.records import (
    EVENT_SCHEMA,
    NESTED_SCHEMA,
    WIDE_SCHEMA,
    Lines,
    broken,
    doubtful,
    event_lines,
    wide_lines,
)

CACHE = Path(__file__).parents[1] / ".cache" / "bench"
GENERATION = 3
"""Version of the generators here and in `records`. Cached data of another generation is generated again."""
SEED = 1
FIRST_DAY = date(2024, 1, 1)
FIRST_TS = 1_704_067_200
DIRTY_SHARE = 0.01
DOUBTFUL_SHARE = 0.1
"""Share of the broken lines that only Spark's parser can refuse, in data set `undecided`."""
SAME_RECORDS = {"dirty": "clean", "undecided": "clean"}
"""Data sets that contain the records of another one."""
_EVENT_COLUMNS = ("id", "n", "timestamp", "value", "payload")
SUMMED: Mapping[str, tuple[str, ...]] = {
    EVENT_SCHEMA: _EVENT_COLUMNS,
    NESTED_SCHEMA: (*_EVENT_COLUMNS, "origin", "tags"),
    WIDE_SCHEMA: ("id", "n"),
}
"""Columns with checksums, by schema. `wide` compares the values of all other columns with Spark's."""
FILES_PER_TASK = 500


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file to generate. `dirty`: share of its lines that are broken; `doubtful`: share of these that only Spark's
    parser can refuse."""

    path: str
    number: int
    first: int
    records: int
    dirty: float = 0.0
    doubtful: float = 0.0


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files below `folder`, in subfolders `date=…`: gzipped NDJSON, or what `format` names. Expected result: `rows`,
    and `checksums` by column (`benchmarks.checksum`). `raw_bytes`: size of text when decompressed; else the stored
    size."""

    name: str
    scale: float
    folder: str
    schema: str
    rows: int
    checksums: Mapping[str, int]
    broken: int
    stored_bytes: int
    raw_bytes: int
    paths: tuple[str, ...]
    format: str = "ndjson"

    @property
    def files(self) -> int:
        return len(self.paths)


def dataset(
    name: str, scale: float, report_progress: Callable[[str], None] = lambda _: None, *, cache: Path = CACHE
) -> Dataset:
    """Returns the cached data set, or generates it. `scale` 1 is the full size."""
    return cached(name, scale, cache, lambda folder: _make(name, scale, folder, report_progress))


def cached(name: str, scale: float, cache: Path, make: Callable[[Path], Dataset]) -> Dataset:
    """Returns the data set of this name and scale, which `make` generates in a folder if it is not there."""
    folder = cache / f"{name}-{scale:g}"
    meta = folder / "dataset.json"
    if meta.exists():
        found = json.loads(meta.read_text())
        if found.pop("generation") == GENERATION:
            return Dataset(**{**found, "folder": str(folder / "files"), "paths": tuple(found["paths"])})
    shutil.rmtree(folder, ignore_errors=True)
    made = make(folder / "files")
    meta.write_text(json.dumps({"generation": GENERATION, **asdict(made)}))
    return made


def path_of(day: int, number: int, extension: str = ".ndjson.gz") -> str:
    """Path of a file in the folder of a day; day 0 is `date=2024-01-01`. Names sort by number."""
    return f"date={FIRST_DAY + timedelta(days=day)}/{FIRST_TS + number}-{number:08x}{extension}"


def _big(scale: float) -> Iterator[FileSpec]:
    """5,000,000 records in 100 files, 4 partitions."""
    return even(round(5_000_000 * scale), files_at(100, scale), 4)


def _small(scale: float) -> Iterator[FileSpec]:
    """100,000 files of 10 records, 10 partitions."""
    files = max(10, round(100_000 * scale))
    return even(10 * files, files, 10)


def _wide(scale: float) -> Iterator[FileSpec]:
    return even(max(40, round(100_000 * scale)), files_at(20, scale), 4)


def _clean(scale: float) -> Iterator[FileSpec]:
    """1,000,000 records in 100 files and one more file, of which all lines are broken in `dirty`."""
    return even(round(1_000_000 * scale), files_at(100, scale) + 1, 4)


def _dirty(scale: float) -> Iterator[FileSpec]:
    specs = [*_clean(scale)]
    for spec in specs:
        share = 1.0 if spec.number == len(specs) // 2 else DIRTY_SHARE
        yield FileSpec(spec.path, spec.number, spec.first, spec.records, share)


def _undecided(scale: float) -> Iterator[FileSpec]:
    return (replace(spec, doubtful=DOUBTFUL_SHARE) for spec in _dirty(scale))


def _skew(scale: float) -> Iterator[FileSpec]:
    """One file of 2 GB, decompressed, and 10,000 small files."""
    large, files = round(15_000_000 * scale), max(10, round(10_000 * scale))
    yield FileSpec(path_of(0, 0), 0, 0, large)
    for number in range(1, files + 1):
        yield FileSpec(path_of(0, number), number, large + 10 * (number - 1), 10)


def files_at(full: int, scale: float) -> int:
    """The full number of files, unless the files would be nearly empty at this scale."""
    return max(4, round(full * min(1.0, 10 * scale)))


def even(records: int, files: int, days: int, extension: str = ".ndjson.gz") -> Iterator[FileSpec]:
    """Files of the same number of records, about, in folders of so many days."""
    for number in range(files):
        first, after = records * number // files, records * (number + 1) // files
        yield FileSpec(path_of(number * days // files, number, extension), number, first, after - first)


RECIPES: dict[str, tuple[str, Callable[[float], Iterator[FileSpec]], Lines]] = {
    "big": (EVENT_SCHEMA, _big, event_lines),
    "small": (EVENT_SCHEMA, _small, event_lines),
    "wide": (WIDE_SCHEMA, _wide, wide_lines),
    "clean": (EVENT_SCHEMA, _clean, event_lines),
    "dirty": (EVENT_SCHEMA, _dirty, event_lines),
    "undecided": (EVENT_SCHEMA, _undecided, event_lines),
    "skew": (EVENT_SCHEMA, _skew, event_lines),
}


@dataclass(frozen=True, slots=True)
class Made:
    """What was generated: a part of the files, or all of them. Its fields are those of `Dataset`."""

    rows: int = 0
    checksums: Mapping[str, int] = field(default_factory=dict)
    broken: int = 0
    stored_bytes: int = 0
    raw_bytes: int = 0

    def add(self, other: "Made") -> "Made":
        mine, its = asdict(self), asdict(other)
        sums = {"checksums": checksum.add(mine.pop("checksums"), its.pop("checksums"))}
        return Made(**sums, **{name: mine[name] + its[name] for name in mine})


def _make(name: str, scale: float, folder: Path, report_progress: Callable[[str], None]) -> Dataset:
    schema, recipe, _ = RECIPES[name]
    specs = [*recipe(scale)]
    total = generated(name, specs, folder, partial(_make_files, name, folder), report_progress)
    return Dataset(name, scale, str(folder), schema, **asdict(total), paths=tuple(spec.path for spec in specs))


def generated(
    name: str,
    specs: Sequence[FileSpec],
    folder: Path,
    make_files: Callable[[Sequence[FileSpec]], Made],
    report_progress: Callable[[str], None],
) -> Made:
    """Generates the files below `folder`, by as many processes as there are cores. `make_files` is pickled."""
    for parent in {(folder / spec.path).parent for spec in specs}:
        parent.mkdir(parents=True, exist_ok=True)
    shares = [specs[start : start + FILES_PER_TASK] for start in range(0, len(specs), FILES_PER_TASK)]
    if len(shares) < 8:
        shares = [[spec] for spec in specs]
    total, done = Made(), 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in as_completed([pool.submit(make_files, share) for share in shares]):
            total, done = total.add(future.result()), done + 1
            if done * 4 % len(shares) < 4:
                report_progress(f"making the data of {name}: {100 * done // len(shares)} %")
    return total


def _make_files(name: str, folder: Path, specs: Sequence[FileSpec]) -> Made:
    total = Made()
    for spec in specs:
        total = total.add(_make_file(name, folder / spec.path, spec))
    return total


def _make_file(name: str, path: Path, spec: FileSpec) -> Made:
    rng = random.Random(f"{SEED}:{SAME_RECORDS.get(name, name)}:{spec.number}")
    harm, doubt = (random.Random(f"{SEED}:{kind}:{spec.number}") for kind in ("harm", "doubt"))
    rows = raw_bytes = 0
    sums = dict.fromkeys(SUMMED[RECIPES[name][0]], 0)
    # No name or time in the gzip header, so that the same seed gives the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        pending: list[bytes] = []
        for n, line in enumerate(RECIPES[name][2](rng, spec.first, spec.records), spec.first):
            if spec.dirty and harm.random() < spec.dirty:
                pending.append(doubtful(line) if doubt.random() < spec.doubtful else broken(line, n))
            else:
                rows += 1
                record = json.loads(line)
                for column in sums:
                    sums[column] += checksum.of_value(record[column])
                pending.append(line)
            if len(pending) == 5000:
                raw_bytes += packed.write(b"\n".join(pending) + b"\n")
                pending.clear()
        if pending:
            raw_bytes += packed.write(b"\n".join(pending) + b"\n")
    return Made(rows, sums, spec.records - rows, path.stat().st_size, raw_bytes)
