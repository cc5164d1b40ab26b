"""Reports, chart, cost table and result files of a run of benchmarks."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import __main__ as command
from benchmarks.chart import WIDTH, chart
from benchmarks.cost import bill
from benchmarks.goals import goals_of
from benchmarks.report import as_markdown, as_text
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number
from benchmarks.verify import WrongResult
from benchmarks.version import Version
from tests.unit.bench_results import MACHINE

SPREADS = {"spark_warm": Spread.of([1.5, 1.4, 1.6]), "spark_cold": Spread.of([1.9])}
BIG = Result(
    "big",
    "5,000,000 records",
    (Table(("contender", "warm s"), (("Blizzard", "8"), ("A & B", "16"))),),
    tuple(evaluate_goals(goals_of("big"), SPREADS, {"bare_limit": "no room"})),
    notes=("a note",),
    bars={"Blizzard": 8.0, "A & B": 16.0, "bare limit": 4.0},
    raw={"data": {"files": 1, "records": 1, "stored_bytes": 1, "raw_bytes": 1}},
    rounds=3,
)
PLAN = Result("plan", "a plan", (Table(("entries", "s"), (("all", "1"),)),), ())
ONE, OTHER = Version("1" * 40, changed=False), Version("2" * 40, changed=True)


def test_the_report_has_each_goal_with_what_was_measured() -> None:
    text = as_text(MACHINE, [BIG])
    assert "1.50 (1.40..1.60)" in text
    assert "not measured: no room" in text
    verdicts = [line.split("  ")[-1].strip() for line in text.splitlines() if "throughput relative to" in line]
    assert verdicts == ["met", "not met, one round"]
    assert "a note" in text
    assert "a processor, 2 cores" in text


@pytest.mark.parametrize("shown", [as_text, as_markdown])
def test_the_report_says_which_version_was_measured(shown: Callable[..., str]) -> None:
    told = shown(MACHINE, [replace(BIG, version=ONE), replace(PLAN, version=ONE)])
    assert told.splitlines()[0].endswith("pyspark 4.1.1; Blizzard at 111111111111")
    assert "several runs" not in told


@pytest.mark.parametrize("shown", [as_text, as_markdown])
def test_the_report_says_which_benchmark_is_of_which_version(shown: Callable[..., str]) -> None:
    results = [replace(BIG, version=OTHER), replace(PLAN, version=ONE), replace(PLAN, name="collect", version=OTHER)]
    assert "222222222222 with changes: big, collect; 111111111111: plan." in shown(MACHINE, results)
    told = shown(MACHINE, [*results, replace(PLAN, name="find")])
    assert "111111111111: plan; not known: find." in told
    assert "of these versions of Blizzard: 222222222222 with changes: big, collect; 111" in told
    assert "Blizzard at" not in told


@pytest.mark.parametrize("shown", [as_text, as_markdown])
def test_a_report_without_versions_does_not_speak_of_them(shown: Callable[..., str]) -> None:
    told = shown(MACHINE, [BIG, PLAN])
    assert told.splitlines()[0].endswith("pyspark 4.1.1")
    assert "versions of Blizzard" not in told


@pytest.mark.parametrize(
    ("cold", "verdict"),
    [
        ([2.5, 2.2, 2.0], "met"),
        ([1.9, 2.2, 2.5], "met by the median"),
        ([1.9, 2.2, 1.8], "not met by the median"),
        ([1.9, 1.8, 1.7], "not met"),
    ],
)
def test_a_verdict_that_not_every_round_shares_is_told_to_be_the_medians(cold: list[float], verdict: str) -> None:
    goal_results = tuple(evaluate_goals(goals_of("big"), {"spark_cold": Spread.of(cold)}, {}))
    (line,) = [
        line
        for line in as_markdown(MACHINE, [replace(BIG, goal_results=goal_results)]).splitlines()
        if ", cold" in line
    ]
    assert line.endswith(f"| {verdict} |")


def test_a_verdict_on_one_round_says_so_unless_its_value_is_of_several() -> None:
    def told(rounds: int) -> str:
        goal_results = tuple(
            evaluate_goals(
                goals_of("find"), {"flat": Spread.of([1.1]), "flat_first": Spread.of([1.3])}, {}, rounds=rounds
            )
        )
        return as_markdown(MACHINE, [replace(PLAN, name="find", goal_results=goal_results)])

    assert f"| 1.10{TIMES} | met, one round |" in told(1)
    assert f"| 1.30{TIMES} | not met, one round |" in told(1)
    assert f"| 1.10{TIMES} | met |" in told(3)
    assert "one round" not in told(3)


def test_a_goal_that_was_not_measured_has_no_rounds() -> None:
    goal_results = tuple(evaluate_goals(goals_of("find"), {}, {}, rounds=3))
    assert "one round" not in as_markdown(MACHINE, [replace(PLAN, name="find", goal_results=goal_results)])


def test_a_small_form_says_that_it_is_one() -> None:
    assert "scale 0.01: too small" in as_text(MACHINE, [replace(BIG, scale=0.01)])
    assert "too small" not in as_text(MACHINE, [BIG])
    assert "not met at 0.01 of the size" in as_text(MACHINE, [replace(BIG, scale=0.01)])
    assert "(0.01 of the full size)" in chart([replace(BIG, scale=0.01)])


def test_markdown_tables_have_as_many_cells_in_each_row() -> None:
    table: list[str] = []
    for line in [*as_markdown(MACHINE, [BIG, PLAN]).splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
        elif table:
            assert {row.count("|") for row in table} == {table[0].count("|")}
            table = []


def test_the_cost_of_a_million_files_follows_from_the_rate() -> None:
    found = bill(1_000_000, 100.0)
    assert found.hours == pytest.approx(1_000_000 / 400 / 3600)
    assert found.vcpu_hours == pytest.approx(found.hours * 6)
    assert found.dollars == pytest.approx(found.hours * (6 * 0.042094 + 23 * 0.004628))
    assert bill(1_000_000, 100.0, executors=4).dollars < found.dollars


def test_the_cost_is_told_where_it_can_be_known() -> None:
    facts = {"files": 100, "records": 5_000_000, "stored_bytes": 250_000_000, "raw_bytes": 700_000_000}
    told = as_markdown(MACHINE, [replace(BIG, raw={"data": facts})])
    assert "| 2,500 kB, 50,000 records | 6.25 |" in told
    assert "a million files" not in as_markdown(MACHINE, [PLAN])


def test_from_s3_each_file_costs_a_get_beside_the_workers() -> None:
    facts = {"files": 1000, "records": 10_000, "stored_bytes": 500_000, "raw_bytes": 1_000_000}
    over_s3 = {"data": facts, "contenders": {"local": {"warm_secs": [9.0]}, "s3": {"warm_secs": [1.0, 0.5, 0.1]}}}
    result = Result("s3", "both", (), raw={"big": over_s3, "small": over_s3, "gets_per_sec": 6_000.0})
    core, cost = [line for line in as_markdown(MACHINE, [result]).splitlines() if ", 10 records, from S3" in line][::2]
    per_core = 1000 / (0.5 * MACHINE["cores"])
    assert core.startswith(f"| 0.50 kB, 10 records, from S3 | {number(per_core)} | {number(10 * per_core)} |")
    workers = bill(1_000_000, per_core).dollars
    assert cost.endswith(f"| {number(workers)} | 0.40 | {number(workers + 0.4)} |")


def test_what_a_core_does_is_told_by_files_records_and_bytes() -> None:
    facts = {"files": 100, "records": 5_000_000, "stored_bytes": 250_000_000, "raw_bytes": 700_000_000}
    told = as_markdown(MACHINE, [replace(BIG, raw={"data": facts})])
    assert "| 2,500 kB, 50,000 records | 6.25 | 312,500 | 15.6 | 43.8 |" in told


def test_the_picture_is_well_formed_and_draws_the_faster_longer() -> None:
    root = ET.fromstring(chart([BIG, PLAN]))
    bars = [float(bar.attrib["width"]) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert bars == sorted(bars, reverse=True)
    assert bars[1] == pytest.approx(bars[0] / 2, abs=0.1)
    assert max(bars) < WIDTH
    assert "A & B" in texts
    beside = [text for text in texts if "\N{MULTIPLICATION SIGN}," in text]
    assert beside == [
        f"{times} \N{MULTIPLICATION SIGN}, {secs} s" for times, secs in (("2", 4), ("1", 8), ("0.50", 16))
    ]
    assert any("spark warm 1.50" in text for text in texts)
    assert not any("a plan" in text for text in texts)


def test_no_text_of_the_picture_is_wider_than_it() -> None:
    many = replace(BIG, goal_results=BIG.goal_results * 4)
    root = ET.fromstring(chart([many]))
    assert max(len(text.text or "") for text in root.iter("{http://www.w3.org/2000/svg}text")) * 7 <= WIDTH


def test_the_picture_knows_light_and_dark() -> None:
    assert "prefers-color-scheme:dark" in chart([BIG])


def test_a_result_survives_being_written_down() -> None:
    assert Result.from_json(json.loads(json.dumps(BIG.to_json()))) == BIG


def test_a_result_survives_with_its_version() -> None:
    for version in (ONE, OTHER):
        result = replace(BIG, version=version)
        assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_result_from_before_there_were_versions_is_read() -> None:
    older = BIG.to_json()
    del older["version"], older["cores"]
    for goal in older["goals"]:
        del goal["rounds"]
    assert Result.from_json(json.loads(json.dumps(older))) == BIG


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces measuring; records the benchmarks that were asked for."""
    asked: list[str] = []

    def run(name: str, options: RunOptions) -> Result:
        asked.append(name)
        return replace({"big": BIG, "plan": PLAN}[name], scale=options.scale)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "machine", lambda: MACHINE)
    monkeypatch.setattr(command, "clear_scratch", lambda: None)
    return asked


def test_a_run_of_some_adds_to_what_the_file_has(measured: list[str], tmp_path: Path) -> None:
    file, svg = tmp_path / "bench.json", tmp_path / "bench.svg"
    assert command.main(["plan", "--json", str(file), "--scale", "0.5"]) == 0
    assert command.main(["big", "--json", str(file), "--svg", str(svg)]) == 0
    known = json.loads(file.read_text())["benchmarks"]
    assert [(one["name"], one["scale"]) for one in known] == [("big", 1.0), ("plan", 0.5)]
    assert "A &amp; B" in svg.read_text()


def test_a_file_of_another_machine_is_left_alone(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    command.main(["plan", "--json", str(file)])
    before = file.read_bytes()
    monkeypatch.setattr(command, "machine", lambda: {**MACHINE, "cores": 1})
    with pytest.raises(SystemExit) as ended:
        command.main(["big", "--json", str(file)])
    assert ended.value.code == 2
    assert "expected results of this machine" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert measured == ["plan"]


def test_what_was_measured_before_one_that_fails_is_kept(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, whole = tmp_path / "bench.json", command.run

    def run(name: str, options: RunOptions) -> Result:
        if name == "plan":
            raise WrongResult("expected 5 rows, found 4")
        return whole(name, options)

    monkeypatch.setattr(command, "run", run)
    assert command.main(["big", "plan", "--json", str(file)]) == 1
    assert [one["name"] for one in json.loads(file.read_text())["benchmarks"]] == ["big"]


def test_a_report_can_be_had_again_without_a_run(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bench.json"
    command.main(["big", "--json", str(file)])
    capsys.readouterr()
    assert command.main(["--read", str(file), "--markdown"]) == 0
    assert capsys.readouterr().out == as_markdown(MACHINE, [BIG])
    assert measured == ["big"]


def test_wrong_work_fails_the_run_and_leaves_no_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, options: RunOptions) -> Result:
        raise WrongResult("expected 5 rows, found 4")

    monkeypatch.setattr(command, "run", run)
    assert command.main(["big", "--json", str(tmp_path / "bench.json")]) == 1
    assert "expected 5 rows, found 4" in capsys.readouterr().err
    assert not (tmp_path / "bench.json").exists()


@pytest.mark.parametrize("words", [["bigger"], ["--scale", "0"], ["--rounds", "0"], ["--cores", "1000"]])
def test_what_cannot_be_run_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(words)
