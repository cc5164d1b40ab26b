"""`large`: files of each format are ingested as they were made, and its goal is about the format that needs most."""

from pathlib import Path

import pytest

from benchmarks.goals import goals_of
from benchmarks.large_data import LARGE, large_dataset
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.rounds import ContenderRuns, Measured, measure
from benchmarks.run_options import RunOptions
from benchmarks.stats import evaluate_goals
from benchmarks.suite import large
from benchmarks.verify import WrongResult

MIB = 1 << 20
RECORDS = 40


@pytest.mark.parametrize("form", LARGE)
def test_a_file_of_whole_blocks_up_to_its_size_is_ingested(form: str, tmp_path: Path) -> None:
    one = large_dataset(form, tmp_path / "one", total_bytes=0, records=RECORDS)
    more = large_dataset(form, tmp_path / "more", total_bytes=100_000, records=RECORDS)
    assert one.rows == (1 if LARGE[form].is_record else RECORDS)
    assert 100_000 <= more.stored_bytes == Path(more.folder, more.paths[0]).stat().st_size
    times = more.rows // one.rows
    assert {name: times * total for name, total in one.checksums.items()} == more.checksums
    assert measure(large.work_of(more, tmp_path / "out"), tmp_path).cold_secs > 0


def test_what_is_measured_is_reported_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The large binary file is larger than a record may be, so it is dead-lettered, and the table has no rows."""
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path / "runs")
    monkeypatch.setattr(large, "BYTES", 17 * MIB)
    monkeypatch.setattr(large, "LARGE", {name: LARGE[name] for name in ("orc", "binary")})
    monkeypatch.setattr(large, "BLOCK_RECORDS", 1_000)
    result = large.run(RunOptions(1.0, 1, 2, lambda text: None))
    (table,) = result.tables
    assert [(row[0], row[2] == "none: a dead letter") for row in table.rows] == [("orc", False), ("binary", True)]
    assert [one.goal for one in result.goal_results] == goals_of("large")
    assert not [*(tmp_path / "runs").rglob("*.orc")]


def test_a_table_that_lacks_a_block_is_wrong(tmp_path: Path) -> None:
    data = large_dataset("text", tmp_path / "data", total_bytes=0, records=RECORDS)
    file = Path(data.folder, data.paths[0])
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    with pytest.raises(WrongResult, match="on text-large: expected"):
        measure(large.work_of(data, tmp_path / "out"), tmp_path)


def test_the_format_that_adds_most_decides(tmp_path: Path) -> None:
    def runs(form: str, small: int, big: int) -> large.Runs:
        data = large_dataset(form, tmp_path / form, total_bytes=0, records=1)
        return large.Runs(data, peaks(small, small), peaks(big, big + 64))

    def peaks(*mib: int) -> ContenderRuns:
        usages = [ResourceUsage(each * MIB, 0, 0, 0.0, 0.0) for each in mib]
        return ContenderRuns("somebody", [Measured("somebody", 0.0, 1.0, (), usage, ()) for usage in usages])

    found = {"csv": runs("csv", 300, 428), "xml": runs("xml", 200, 456), "orc": runs("orc", 400, 400)}
    assert found["xml"].added_bytes() == [256 * MIB, 320 * MIB]
    told = large.measured(found)
    assert (told["memory"].low, told["memory"].high) == (1.0, 1.25)
    assert [one.verdict for one in evaluate_goals(goals_of("large"), told, {})] == ["not met"]
