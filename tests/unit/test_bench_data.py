"""The data of the benchmarks: the same each time, and what it says it is. And whether wrong work is noticed."""

import gzip
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.contenders import Work
from benchmarks.data import RECIPES, Dataset, dataset
from benchmarks.process import ContenderFailed, run_process
from benchmarks.records import WIDE_SCHEMA, broken
from benchmarks.rounds import measure
from benchmarks.verify import Found, WrongResult, expect, found_in
from benchmarks.watch import Watch
from blizzard.ddl import parse

SCALE = 0.0002


def lines(data: Dataset) -> list[bytes]:
    return [line for path in data.paths for line in gzip.decompress(Path(data.folder, path).read_bytes()).splitlines()]


@pytest.mark.parametrize("name", RECIPES)
def test_a_data_set_holds_what_it_says(name: str, tmp_path: Path) -> None:
    data = dataset(name, SCALE, cache=tmp_path)
    found, rows, checksum = lines(data), 0, 0
    for line in found:
        try:
            n = json.loads(line)["n"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(n, int):
            rows, checksum = rows + 1, checksum + n
    assert (rows, checksum) == (data.rows, data.checksum)
    assert len(found) == data.rows + data.broken
    assert sum(len(line) + 1 for line in found) == data.raw_bytes
    assert sum(Path(data.folder, path).stat().st_size for path in data.paths) == data.stored_bytes
    assert bool(data.broken) == (name == "dirty")


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
        "skew": 10_001,
    }
    assert sum(spec.records for spec in whole["big"]) == 5_000_000
    assert len({Path(spec.path).parent for spec in whole["big"]}) == 4
    assert {spec.records for spec in whole["small"]} == {10}
    assert len({Path(spec.path).parent for spec in whole["small"]}) == 10
    assert [spec.dirty for spec in whole["dirty"]].count(1.0) == 1
    assert whole["skew"][0].records * 135 > 2e9


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


def test_a_table_with_a_row_too_few_or_too_many_is_noticed(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path)
    expect("x", data, Found(data.rows, data.checksum, 2), 2)
    for wrong in (
        Found(data.rows - 1, data.checksum, 2),
        Found(data.rows, data.checksum + 1, 2),
        Found(data.rows, data.checksum, 3),
    ):
        with pytest.raises(WrongResult, match="x on small: expected"):
            expect("x", data, wrong, 2)


def test_what_is_in_a_table_is_read_from_it(tmp_path: Path) -> None:
    for start in (0, 3):
        write_deltalake(tmp_path / "table", pa.table({"n": [start, start + 1, start + 2]}), mode="append")
    assert found_in(str(tmp_path / "table")) == Found(6, 15, 2)


def test_a_contender_runs_in_a_process_of_its_own_and_is_checked(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    found = measure(Work("bare_limit", data, str(tmp_path), 2, 2), tmp_path)
    assert len(found.warm_secs) == 1
    assert found.cold_secs > 0
    assert found.taken.peak_bytes > 20 << 20


def test_a_contender_that_leaves_out_a_record_has_no_time(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    more = replace(data, rows=data.rows + 1)
    with pytest.raises(WrongResult, match="bare limit on small: expected"):
        measure(Work("bare_limit", more, str(tmp_path), 1, 2), tmp_path)


def test_a_contender_that_fails_says_why(tmp_path: Path) -> None:
    data = dataset("small", SCALE, cache=tmp_path / "data")
    Path(data.folder, data.paths[0]).unlink()
    with pytest.raises(ContenderFailed, match="FileNotFoundError"):
        run_process(Work("bare_limit", data, str(tmp_path), 1, 2), tmp_path, {})


def test_what_a_process_and_its_children_take_is_seen() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = bytes([1]) * (90 << 20); input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process, Watch(process.pid) as watch:
        deadline = time.monotonic() + 60
        while watch.peak_bytes < 90 << 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.communicate(b"\n")
    assert watch.taken().peak_python_bytes >= 90 << 20
    assert watch.taken().peak_java_bytes == 0
    assert os.getpid() != process.pid
