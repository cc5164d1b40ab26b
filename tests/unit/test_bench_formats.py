"""The data sets of `formats` match their metadata in each format, and its ratios have the right direction."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from benchmarks.contenders import Work, arrow_read, contender
from benchmarks.contenders.arrow_schema import schema_of
from benchmarks.data import Dataset, dataset
from benchmarks.format_data import EXTENSIONS, FORMATS, SIZES, format_dataset, specs_of
from benchmarks.goals import goals_of
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.rounds import ContenderRuns, Measured, measure
from benchmarks.stats import Spread, evaluate_goals
from benchmarks.suite import formats
from benchmarks.verify import WrongResult

SCALE = 0.0002
Record = dict[str, Any]


def csv_records(data: bytes) -> list[Record]:
    types: Mapping[str, Callable[[str], Any]] = {"n": int, "timestamp": int, "value": float}
    rows = csv.DictReader(io.StringIO(gzip.decompress(data).decode()))
    return [{name: types.get(name, str)(text) for name, text in row.items()} for row in rows]


READERS: Mapping[str, Callable[[bytes], list[Record]]] = {
    "csv": csv_records,
    "json": lambda data: json.loads(gzip.decompress(data)),
    "parquet": lambda data: pq.read_table(io.BytesIO(data)).to_pylist(),
    "avro": lambda data: [*fastavro.reader(io.BytesIO(data))],
    "orc": lambda data: orc.read_table(io.BytesIO(data)).to_pylist(),
}


def records(data: Dataset) -> list[Record]:
    return [record for path in data.paths for record in READERS[data.format](Path(data.folder, path).read_bytes())]


def of_big(tmp_path: Path) -> list[Record]:
    plain = dataset("big", SCALE, cache=tmp_path)
    files = (gzip.decompress(Path(plain.folder, path).read_bytes()) for path in plain.paths)
    return [json.loads(line) for file in files for line in file.splitlines()]


@pytest.mark.parametrize("form", FORMATS)
def test_the_records_are_those_of_big_and_nested_ones_where_a_format_has_them(form: str, tmp_path: Path) -> None:
    data = format_dataset(form, "big", SCALE, cache=tmp_path)
    found, wanted = records(data), of_big(tmp_path)
    assert len(found) == data.rows
    assert [{name: record[name] for name in wanted[0]} for record in found] == wanted
    nested = [{name: value for name, value in record.items() if name not in wanted[0]} for record in found]
    assert {tuple(record) for record in nested} == {() if form == "csv" else ("origin", "tags")}
    assert sum(Path(data.folder, path).stat().st_size for path in data.paths) == data.stored_bytes
    assert all(path.endswith(EXTENSIONS[form]) for path in data.paths)


def test_every_format_has_the_same_records(tmp_path: Path) -> None:
    json_records, *others = (records(format_dataset(form, "small", SCALE, cache=tmp_path)) for form in FORMATS[1:])
    assert {len(record["tags"]) for record in json_records} == {0, 1, 2, 3}
    assert others == [json_records] * 3


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_seed_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    one, other = (format_dataset(form, "small", SCALE, cache=tmp_path / name) for name in ("a", "b"))
    assert one.paths == other.paths
    assert all(Path(one.folder, path).read_bytes() == Path(other.folder, path).read_bytes() for path in one.paths)


@pytest.mark.parametrize("form", FORMATS)
def test_the_sizes_are_those_of_the_goals(form: str) -> None:
    big, small = (specs_of(form, size, 1.0) for size in SIZES)
    assert (len(big), sum(spec.records for spec in big)) == (100, 5_000_000)
    assert (len(small), {spec.records for spec in small}) == (10_000, {10})


@pytest.mark.parametrize("form", FORMATS)
def test_a_loop_by_hand_reads_each_format_into_the_schema(form: str, tmp_path: Path) -> None:
    data = format_dataset(form, "small", SCALE, cache=tmp_path)
    table = arrow_read.READ[form](f"{data.folder}/{data.paths[0]}", False)
    assert table.schema.names == schema_of(form).names
    assert table.to_pylist() == records(data)[:10]


@pytest.mark.parametrize("who", ["blizzard_local", "arrow_loop"])
@pytest.mark.parametrize("form", ["csv", "avro"])
def test_a_table_is_checked_down_to_its_nested_values(form: str, who: str, tmp_path: Path) -> None:
    data = format_dataset(form, "small", SCALE, cache=tmp_path / "data")
    work = Work(who, data, str(tmp_path), 2, 2)
    assert len(measure(work, tmp_path).warm_secs) == 1
    last = [*data.checksums][-1]
    other = replace(data, checksums={**data.checksums, last: data.checksums[last] + 1})
    with pytest.raises(WrongResult, match=f"on {form}-small: expected"):
        measure(replace(work, data=other, runs=1, out=str(tmp_path / "again")), tmp_path)


def test_a_copy_by_pyarrow_is_checked(tmp_path: Path) -> None:
    data = format_dataset("parquet", "big", SCALE, cache=tmp_path / "data")
    assert measure(Work("arrow_copy", data, str(tmp_path), 1, 2), tmp_path).cold_secs > 0


# --- Goals, from invented times ---


def timed(cold: float, warm: float) -> ContenderRuns:
    usage = ResourceUsage(0, 0, 0, 0.0, 0.0)
    return ContenderRuns("somebody", [Measured("somebody", 0.0, cold, (warm,), usage, ())] * 2)


def series(spark: float, loop: float) -> dict[str, ContenderRuns]:
    return {
        "blizzard": timed(10.0, 4.0),
        "blizzard_local": timed(2.0, 2.0),
        "spark_reader": timed(30.0 * spark, 8.0 * spark),
        "arrow_loop": timed(9.0, 3.0 * loop),
    }


def test_the_worst_format_decides_for_each_engine() -> None:
    found = {"csv-big": series(2, 1), "orc-big": series(1, 2), "csv-small": series(8, 2), "orc-small": series(9, 2)}
    found["parquet-big"] = {**series(2, 2), "arrow_copy": timed(1.0, 1.0)}
    found["avro-big"] = {name: one for name, one in series(1, 1).items() if name != "spark_reader"}
    told = formats.measured(found)
    assert {name: spread.median for name, spread in told.items()} == {
        "spark_cold": 3.0,
        "spark_warm": 2.0,
        "small_cold": 24.0,
        "small_warm": 16.0,
        "local_spark_cold": 15.0,
        "local_spark_warm": 4.0,
        "local_small_cold": 120.0,
        "local_small_warm": 32.0,
        "arrow_loop": 1.5,
        "arrow_copy": 2.0,
    }
    verdicts = {one.goal.name: one.verdict for one in evaluate_goals(goals_of("formats"), told, {})}
    assert [name for name, verdict in verdicts.items() if verdict == "not met"] == ["arrow_copy"]
    assert told["spark_cold"] == Spread.of([3.0, 3.0])


# --- Contenders ---


def test_contenders_that_cannot_read_a_format_are_left_out(tmp_path: Path) -> None:
    def who(form: str, size: str) -> set[str]:
        return {*formats.contenders_for(format_dataset(form, size, SCALE, cache=tmp_path))}

    everybody = {*formats.WHO}
    assert who("csv", "small") == who("json", "big") == everybody
    assert who("parquet", "big") == everybody | {"arrow_copy"}
    assert who("orc", "small") == everybody - {"duckdb_loop"}
    assert who("avro", "big") == {"blizzard", "blizzard_local", "arrow_loop"}


def test_the_report_says_what_was_not_measured() -> None:
    notes = "\n".join(formats.notes({"csv-big": series(1, 1)}))
    for who in ("spark_reader", "streaming"):
        assert f"avro, {contender(who).TITLE}: not measured. Spark's reader of Avro is a jar" in notes
    assert "csv-big, " in notes
