"""What the contenders read: made once for each scale, in processes for all cores, and kept in `.cache/bench`."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

from benchmarks import checksum
from benchmarks.records import EVENT_SCHEMA, WIDE_SCHEMA, Lines, broken, doubtful, event_lines, wide_lines

CACHE = Path(__file__).parents[1] / ".cache" / "bench"
GENERATION = 3
"""Of this module and of `records`: what another one made is made anew."""
SEED = 1
FIRST_DAY = date(2024, 1, 1)
FIRST_TS = 1_704_067_200
DIRTY_SHARE = 0.01
DOUBTFUL_SHARE = 0.1
"""Of broken lines, where only Spark can tell of some that they are."""
SAME_RECORDS = {"dirty": "clean", "undecided": "clean"}
"""What is made of the very records of another data set."""
SUMMED = {EVENT_SCHEMA: ("id", "n", "timestamp", "value", "payload"), WIDE_SCHEMA: ("id", "n")}
"""By schema, the columns whose sums are kept; the values of wide records are compared one by one."""
FILES_PER_TASK = 500


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file to make. `dirty`: the share of its lines that is broken; `doubtful`: the share of these of which only
    Spark can tell."""

    path: str
    number: int
    first: int
    records: int
    dirty: float = 0.0
    doubtful: float = 0.0


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files below `folder`, all of them gzipped NDJSON in folders `date=…`. What a reader has to find: so many `rows`,
    and `checksums` of some columns (`benchmarks.checksum`). `raw_bytes`: decompressed."""

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

    @property
    def files(self) -> int:
        return len(self.paths)


def dataset(
    name: str, scale: float, report_progress: Callable[[str], None] = lambda _: None, *, cache: Path = CACHE
) -> Dataset:
    """The data set of this name, made if it is not there. `scale` 1 is the full size."""
    folder = cache / f"{name}-{scale:g}"
    meta = folder / "dataset.json"
    if meta.exists():
        found = json.loads(meta.read_text())
        if found.pop("generation") == GENERATION:
            return Dataset(**{**found, "folder": str(folder / "files"), "paths": tuple(found["paths"])})
    shutil.rmtree(folder, ignore_errors=True)
    made = _make(name, scale, folder / "files", report_progress)
    meta.write_text(json.dumps({"generation": GENERATION, **asdict(made)}))
    return made


def path_of(day: int, number: int) -> str:
    """Of a day's folder, `date=2024-01-01` for day 0. Names sort as they are numbered."""
    return f"date={FIRST_DAY + timedelta(days=day)}/{FIRST_TS + number}-{number:08x}.ndjson.gz"


def _big(scale: float) -> Iterator[FileSpec]:
    """5,000,000 records in 100 files, 4 partitions."""
    return _even(round(5_000_000 * scale), _files(100, scale), 4)


def _small(scale: float) -> Iterator[FileSpec]:
    """100,000 files of 10 records, 10 partitions."""
    files = max(10, round(100_000 * scale))
    return _even(10 * files, files, 10)


def _wide(scale: float) -> Iterator[FileSpec]:
    return _even(max(40, round(100_000 * scale)), _files(20, scale), 4)


def _clean(scale: float) -> Iterator[FileSpec]:
    """1,000,000 records in 100 files and one file more, which in `dirty` is broken altogether."""
    return _even(round(1_000_000 * scale), _files(100, scale) + 1, 4)


def _dirty(scale: float) -> Iterator[FileSpec]:
    specs = [*_clean(scale)]
    for spec in specs:
        share = 1.0 if spec.number == len(specs) // 2 else DIRTY_SHARE
        yield FileSpec(spec.path, spec.number, spec.first, spec.records, share)


def _undecided(scale: float) -> Iterator[FileSpec]:
    return (replace(spec, doubtful=DOUBTFUL_SHARE) for spec in _dirty(scale))


def _skew(scale: float) -> Iterator[FileSpec]:
    """2 GB, decompressed, and 10,000 small files."""
    large, files = round(15_000_000 * scale), max(10, round(10_000 * scale))
    yield FileSpec(path_of(0, 0), 0, 0, large)
    for number in range(1, files + 1):
        yield FileSpec(path_of(0, number), number, large + 10 * (number - 1), 10)


def _files(full: int, scale: float) -> int:
    """Fewer files only where they would hold next to nothing."""
    return max(4, round(full * min(1.0, 10 * scale)))


def _even(records: int, files: int, days: int) -> Iterator[FileSpec]:
    for number in range(files):
        first, after = records * number // files, records * (number + 1) // files
        yield FileSpec(path_of(number * days // files, number), number, first, after - first)


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
class _Made:
    rows: int = 0
    checksums: Mapping[str, int] = field(default_factory=dict)
    broken: int = 0
    stored_bytes: int = 0
    raw_bytes: int = 0

    def add(self, other: "_Made") -> "_Made":
        mine, its = asdict(self), asdict(other)
        sums = {"checksums": checksum.add(mine.pop("checksums"), its.pop("checksums"))}
        return _Made(**sums, **{name: mine[name] + its[name] for name in mine})


def _make(name: str, scale: float, folder: Path, report_progress: Callable[[str], None]) -> Dataset:
    schema, recipe, _ = RECIPES[name]
    specs = [*recipe(scale)]
    for parent in {(folder / spec.path).parent for spec in specs}:
        parent.mkdir(parents=True, exist_ok=True)
    shares = [specs[start : start + FILES_PER_TASK] for start in range(0, len(specs), FILES_PER_TASK)]
    if len(shares) < 8:
        shares = [[spec] for spec in specs]
    total, done = _Made(), 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in as_completed([pool.submit(_make_files, name, folder, share) for share in shares]):
            total, done = total.add(future.result()), done + 1
            if done * 4 % len(shares) < 4:
                report_progress(f"making the data of {name}: {100 * done // len(shares)} %")
    return Dataset(name, scale, str(folder), schema, **asdict(total), paths=tuple(spec.path for spec in specs))


def _make_files(name: str, folder: Path, specs: list[FileSpec]) -> _Made:
    total = _Made()
    for spec in specs:
        total = total.add(_make_file(name, folder / spec.path, spec))
    return total


def _make_file(name: str, path: Path, spec: FileSpec) -> _Made:
    rng = random.Random(f"{SEED}:{SAME_RECORDS.get(name, name)}:{spec.number}")
    harm, doubt = (random.Random(f"{SEED}:{kind}:{spec.number}") for kind in ("harm", "doubt"))
    rows = raw_bytes = 0
    sums = dict.fromkeys(SUMMED[RECIPES[name][0]], 0)
    # Neither name nor time in the header, so that the same seed gives the same bytes.
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
    return _Made(rows, sums, spec.records - rows, path.stat().st_size, raw_bytes)
