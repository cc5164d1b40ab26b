"""The data sets are reproducible and match their metadata, and a wrong table is detected."""

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from benchmarks import checksum
from benchmarks.contenders import Work
from benchmarks.data import RECIPES, Dataset, dataset
from benchmarks.process import ContenderFailed, clear_scratch, run_process, scratch
from benchmarks.records import WIDE_SCHEMA, broken, doubtful, event_lines
from benchmarks.resource_monitor import ResourceMonitor, tree_cpu_secs
from benchmarks.rounds import in_turn, measure
from benchmarks.suite.dirty import DATA
from benchmarks.suite.skew import without_the_largest
from benchmarks.verify import Found, WrongResult, expect, found_in
from blizzard.config.ddl import parse
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.type_mismatch import type_mismatch

SCALE = 0.0002


def lines(data: Dataset) -> list[bytes]:
    return [line for path in data.paths for line in gzip.decompress(Path(data.folder, path).read_bytes()).splitlines()]


def value_of(value: object) -> int:
    """The checksum's definition, written independently of `benchmarks.checksum`."""
    if isinstance(value, str):
        return sum(byte for character in value for byte in character.encode())
    return int(Decimal(repr(value)) * 1_000_000) if isinstance(value, float) else int(str(value))


@pytest.mark.parametrize("name", RECIPES)
def test_a_data_set_holds_what_it_says(name: str, tmp_path: Path) -> None:
    data = dataset(name, SCALE, cache=tmp_path)
    found, rows, sums = lines(data), 0, dict.fromkeys(data.checksums, 0)
    for line in found:
        try:
            record = json.loads(line)
            n = record["n"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(n, int) and not isinstance(record.get("value"), str):
            rows += 1
            sums = {name: sums[name] + value_of(record[name]) for name in sums}
    assert (rows, sums) == (data.rows, data.checksums)
    assert len(found) == data.rows + data.broken
    assert sum(len(line) + 1 for line in found) == data.raw_bytes
    assert sum(Path(data.folder, path).stat().st_size for path in data.paths) == data.stored_bytes
    assert bool(data.broken) == (name in ("dirty", "undecided"))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (dataset("wide", SCALE, cache=tmp_path / name) for name in ("a", "b"))
    for path in one.paths:
        content = Path(one.folder, path).read_bytes()
        assert content == Path(other.folder, path).read_bytes()
        assert content[4:8] == bytes(4), "the time in gzip's header"


def test_data_is_made_once(tmp_path: Path) -> None:
    said: list[str] = []
    first = dataset("small", SCALE, said.append, cache=tmp_path)
    assert said
    assert dataset("small", SCALE, pytest.fail, cache=tmp_path) == first


def test_the_sizes_are_those_of_the_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: [*recipe(1.0)] for name, (_, recipe, _) in RECIPES.items()}
    assert {name: len(specs) for name, specs in whole.items()} == {
        "big": 100,
        "small": 100_000,
        "wide": 20,
        "clean": 101,
        "dirty": 101,
        "undecided": 101,
        "skew": 10_001,
    }
    assert sum(spec.records for spec in whole["big"]) == 5_000_000
    assert len({Path(spec.path).parent for spec in whole["big"]}) == 4
    assert {spec.records for spec in whole["small"]} == {10}
    assert len({Path(spec.path).parent for spec in whole["small"]}) == 10
    assert [spec.dirty for spec in whole["dirty"]].count(1.0) == 1
    assert whole["skew"][0].records * 135 > 2e9


def test_without_its_largest_file_a_data_set_holds_what_it_says(tmp_path: Path) -> None:
    data = without_the_largest(dataset("skew", SCALE, cache=tmp_path))
    found = [json.loads(line)["n"] for line in lines(data)]
    assert (len(found), {"n": sum(found)}) == (data.rows, data.checksums)
    assert sum(Path(data.folder, path).stat().st_size for path in data.paths) == data.stored_bytes


def test_wide_records_have_200_columns() -> None:
    assert len(parse(WIDE_SCHEMA).columns) == 200


@pytest.mark.parametrize("kind", range(3))
def test_a_broken_line_is_no_record(kind: int) -> None:
    line = broken(b'{"id":"a","n":7,"payload":"some text"}', kind)
    try:
        record = json.loads(line)
    except ValueError:
        return
    assert not isinstance(record["n"], int)


def test_of_a_doubtful_line_only_spark_can_tell() -> None:
    schema = StructType().add("id", StringType(), False).add("n", LongType()).add("value", DoubleType())
    (line,) = event_lines(random.Random(1), 7, 1)
    assert type_mismatch(doubtful(line), schema) is None
    assert NdjsonParser(schema).parse(doubtful(line)).refused == [(0, None)]
    assert type_mismatch(broken(line, 1), schema) is not None


def test_broken_lines_are_the_same_ones_whether_or_not_some_are_doubtful(tmp_path: Path) -> None:
    clean, dirty, undecided = (lines(dataset(name, 0.002, cache=tmp_path)) for name in DATA)
    harmed, doubted = (
        [number for number, (line, sound) in enumerate(zip(other, clean, strict=True)) if line != sound]
        for other in (dirty, undecided)
    )
    assert harmed == doubted
    differing = sum(one != other for one, other in zip(dirty, undecided, strict=True))
    assert 0.02 < differing / len(harmed) < 0.3


def test_a_table_with_a_row_too_few_or_too_many_or_another_value_is_noticed(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path)
    good = Found(data.rows, data.checksums, 2)
    expect("x", data, good, 2)
    others = [replace(good, checksums={**data.checksums, name: total + 1}) for name, total in data.checksums.items()]
    assert len(others) == 5
    for wrong in (replace(good, rows=data.rows - 1), replace(good, commits=3), *others):
        with pytest.raises(WrongResult, match="x on small: expected"):
            expect("x", data, wrong, 2)


def test_what_is_in_a_table_is_read_from_it(tmp_path: Path) -> None:
    for start in (0, 3):
        write_deltalake(tmp_path / "table", pa.table({"n": [start, start + 1, start + 2]}), mode="append")
    assert found_in(str(tmp_path / "table")) == Found(6, {"n": 15}, 2)


@given(
    st.one_of(
        st.tuples(st.just(pa.string()), st.lists(st.none() | st.text())),
        st.tuples(st.just(pa.large_string()), st.lists(st.none() | st.text())),
        st.tuples(st.just(pa.string_view()), st.lists(st.none() | st.text())),
        st.tuples(st.just(pa.int64()), st.lists(st.none() | st.integers(-(2**40), 2**40))),
        st.tuples(st.just(pa.float64()), st.lists(st.none() | st.floats(-1e6, 1e6))),
        st.tuples(st.just(pa.list_(pa.string())), st.lists(st.none() | st.lists(st.none() | st.text()))),
        st.tuples(
            st.just(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
            st.lists(
                st.none()
                | st.fixed_dictionaries({"a": st.none() | st.integers(-(2**40), 2**40), "b": st.lists(st.text())})
            ),
        ),
    ),
    st.data(),
)
def test_a_column_has_the_checksum_of_its_values(column: tuple[pa.DataType, list[object]], data: st.DataObject) -> None:
    kind, values = column
    first, count = (data.draw(st.integers(0, len(values))) for _ in range(2))
    array = pa.array(values, kind).slice(first, count)
    assert checksum.of_array(array) == sum(checksum.of_value(value) for value in values[first : first + count])


def test_texts_that_are_dictionary_encoded_have_the_checksum_of_their_values() -> None:
    assert checksum.of_array(pa.array(["é", "b", "é", None]).dictionary_encode()) == 2 * sum("é".encode()) + ord("b")


def test_a_contender_runs_in_a_process_of_its_own_and_is_checked(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    found = measure(Work("bare_limit", data, str(tmp_path), 2, 2), tmp_path)
    assert len(found.warm_secs) == 1
    assert found.cold_secs > 0
    assert found.usage.peak_bytes > 20 << 20


def test_a_contender_that_leaves_out_a_record_has_no_time(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    more = replace(data, rows=data.rows + 1)
    with pytest.raises(WrongResult, match="bare limit on small: expected"):
        measure(Work("bare_limit", more, str(tmp_path), 1, 2), tmp_path)


def test_each_contender_is_once_the_first() -> None:
    works: dict[str, Any] = {"a": 1, "b": 2, "c": 3}
    rounds = [in_turn(works, turn) for turn in range(3)]
    assert {whole[0] for whole in rounds} == {*works.items()}
    assert all(dict(whole) == works and len(whole) == 3 for whole in rounds)


def test_what_runs_left_is_cleared_but_not_that_of_one_that_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path)
    others, killed = tmp_path / str(os.getppid()), tmp_path / "killed"
    for folder in (others, killed, scratch() / "run-1"):
        folder.mkdir()
    clear_scratch()
    assert [*tmp_path.iterdir()] == [others]


def test_a_contender_that_fails_says_why(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    Path(data.folder, data.paths[0]).unlink()
    with pytest.raises(ContenderFailed, match="FileNotFoundError"):
        run_process(Work("bare_limit", data, str(tmp_path), 1, 2), tmp_path, {})


def test_what_a_process_and_its_children_take_is_seen() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = bytes([1]) * (90 << 20); input()'])"
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process,
        ResourceMonitor(process.pid) as watch,
    ):
        deadline = time.monotonic() + 60
        while watch.peak_bytes < 90 << 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.communicate(b"\n")
    assert watch.usage().peak_python_bytes >= 90 << 20
    assert watch.usage().peak_java_bytes == 0
    assert os.getpid() != process.pid


def test_memory_is_not_counted_twice_while_a_jvm_starts_a_process(tmp_path: Path) -> None:
    java = shutil.copy(shutil.which("bash") or "", tmp_path / "java")
    words = [java, "-c", "(echo started; read) <&0 & wait"]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        ResourceMonitor(process.pid) as watch,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while watch.peak_bytes == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.kill()
    highest_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert 0 < watch.usage().peak_java_bytes <= highest_kb * 1024
    assert watch.usage().peak_bytes <= highest_kb * 1024


def test_the_work_of_children_counts_while_they_run_and_after_they_have_ended() -> None:
    # Of 0.3 seconds that a process burns, /proc counts whole ticks.
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        ended = tree_cpu_secs(process.pid)
        process.communicate(b"\n")
    assert ended >= 0.25
    before = tree_cpu_secs(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", f"{burn}\nprint(flush=True); input()"], stdin=-1, stdout=-1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert tree_cpu_secs(os.getpid()) - before >= 0.25
        process.communicate(b"\n")
    assert tree_cpu_secs(os.getpid()) - before >= 0.25
