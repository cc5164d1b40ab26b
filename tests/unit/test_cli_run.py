"""`blizzard run`: the job in a child process, its events on the terminal, and the exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blizzard.cli import job_process, main, run
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.setup.java import find_java

pytestmark = pytest.mark.usefixtures("signals_as_before")

CONFIG = "pipelines: {p: {table_uri: /tmp/t, sources: {a: {uri: /tmp/s, schema: id STRING}}}}"
SWEPT = {"event": "swept", "source": "p:a", "kind": "watermark", "listed": 2000, "missed": 0}
PLANNED = {"event": "batch_planned", "source": "p:a", "sequence": 3, "files": 2, "bytes": 1024}
COMMITTED = {
    "event": "batch_committed",
    "source": "p:a",
    "sequence": 3,
    "files": 2,
    "rows": 1500,
    "dead_files": 1,
    "dead_records": 4,
}
LETTER = {"event": "file_dead_lettered", "source": "p:a", "path": "b\nc.json", "stage": "parse", "error": "torn"}
RECOVERED = {"event": "recovered", "source": "p:a", "sequence": 2}
BEHIND = {"event": "table_behind", "source": "p:a", "sequence": 3}
DRAINED = {"event": "drained", "source": "p:a", "commits": 1, "files": 2, "rows": 1500}
IDLE = {**DRAINED, "commits": 0}
FAILED = {"event": "source_failed", "source": "p:a", "kind": "StorageError", "error": "denied"}
NEEDED = {"event": "spark_needed", "source": "p:a", "reason": "widening a column"}
LOST = {"event": "spark_lost", "error": "no JVM"}


def job(code: int, *events: dict[str, object], other_lines: str = "", errors: str = "") -> list[str]:
    """A process that prints the events and other lines, and ends with the code."""
    script = (
        "import os, signal, sys\n"
        f"print({other_lines!r})\n"
        f"print({''.join(json.dumps(event) + chr(10) for event in events)!r}, flush=True)\n"
        f"print({errors!r}, file=sys.stderr, flush=True)\n"
        f"os.kill(os.getpid(), -({code})) if {code} < 0 else sys.exit({code})\n"
    )
    return [sys.executable, "-c", script]


def test_each_event_is_a_line_and_what_changes_nothing_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    command = job(
        0, SWEPT, {**SWEPT, "missed": 7}, RECOVERED, BEHIND, PLANNED, NEEDED, LETTER, COMMITTED, DRAINED, IDLE
    )
    assert run._run(command, as_json=False) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "p:a: watermark sweep listed 2,000 files, 7 of them new",
        "table behind: source=p:a sequence=3",
        "p:a: reading batch 3 of 2 files, 1,024 bytes",
        "p:a: Spark is needed for widening a column",
        "p:a: dead-lettered b\\nc.json (parse): torn",
        "p:a: committed batch 3: 2 files, 1,500 rows, dead-lettered 1 files and 4 records",
        "p:a: done, 2 files and 1,500 rows in 1 commits",
        "p:a: nothing new",
    ]
    assert shown.err == ""


def test_what_becomes_of_columns_and_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = {"event": "columns_left_out", "source": "p:a", "columns": ["n", "city"]}
    twice = {"event": "rows_written_twice", "source": "p:a", "reason": "column mapping"}
    assert run._run(job(0, left_out, twice), as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "p:a: new rows have null in n, city, which no source of the pipeline has any more",
        "p:a: rows are written twice, the second time by Spark, because of column mapping",
    ]


def test_a_source_of_topics_has_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    recovered = {"event": "positions_recovered", "source": "p:t", "sequence": -1, "topics": 1, "partitions": 2}
    begun = {
        "event": "messages_committed",
        "source": "p:t",
        "sequence": 0,
        "partitions": 0,
        "rows": 0,
        "dead_records": 0,
    }
    read = {**begun, "sequence": 1, "partitions": 2, "rows": 1500}
    drained = {**DRAINED, "source": "p:t"}
    assert run._run(job(0, recovered, begun, read, drained, DRAINED), as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "p:t: committed batch 0: where it stands, without a message",
        "p:t: committed batch 1: 1,500 rows of 2 partitions",
        "p:t: done, 1,500 rows in 1 commits",
        "p:a: done, 2 files and 1,500 rows in 1 commits",
    ]


def test_lines_that_are_no_events_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run._run(job(0, IDLE, other_lines='Spark says\n{"no": "event"}\n[1]'), as_json=False) == 0
    assert capsys.readouterr().out == "p:a: nothing new\n"


@pytest.mark.parametrize(("event", "text"), [(FAILED, "p:a: failed: denied\n"), (LOST, "failed: no JVM\n")])
def test_an_error_is_shown_once_and_the_exit_code_is_the_jobs(
    event: dict[str, object], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run._run(job(1, event, errors="Traceback of Spark"), as_json=False) == 1
    assert capsys.readouterr() == ("", text)


def test_a_job_that_ends_without_a_word_leaves_its_last_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(["WARN old", "log4j says", *(f"line {n}" for n in range(20))])
    assert run._run(job(1, errors=lines), as_json=False) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["what the job said last:", *(f"  line {n}" for n in range(5, 20))]


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (130, 130), (-9, 1)])
def test_the_exit_code(code: int, expected: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run._run(job(code), as_json=False) == expected
    capsys.readouterr()


def test_events_are_passed_on_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    assert run._run(job(1, FAILED, IDLE, errors="Spark's words"), as_json=True) == 1
    shown = capfd.readouterr()
    assert [json.loads(line) for line in shown.out.splitlines() if line] == [FAILED, IDLE]
    assert "Spark's words" in shown.err


def test_on_a_terminal_the_current_step_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert run._run(job(0, PLANNED, IDLE), as_json=False) == 0
    shown = capsys.readouterr().out
    assert shown.count("reading batch 3") > 1, "once as a line, and once as what is being done"
    assert "\x1b[?25h" in shown, "the cursor is shown again"
    assert "p:a: nothing new\n" in shown


def test_the_job_gets_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    asked: list[tuple[list[str], bool]] = []

    def record(command_line: list[str], check: Callable[[], None], *, as_json: bool) -> int:
        check()
        asked.append((command_line, as_json))
        return 3

    monkeypatch.setattr(run, "_run", record)
    words = ["run", str(config), "--once", "--pipeline", "p", "--engine", "auto", "--jars", str(tmp_path), "--json"]
    assert main(words) == 3
    ((command, as_json),) = asked
    assert command[1:] == [
        *("-m", "spark_job", "--config", str(config), "--sweep", "--jars", str(tmp_path)),
        *("--engine", "auto", "--once", "--pipeline", "p"),
    ]
    assert as_json


def test_a_missing_folder_of_jars_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    assert main(["run", str(config), "--engine", "spark", "--jars", str(tmp_path / "none")]) == 2
    assert "run `make setup`" in capsys.readouterr().err


def test_spark_without_java_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    monkeypatch.setattr(job_process, "problem_of", lambda jars: None)
    monkeypatch.setattr(job_process, "find_java", lambda: find_java(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["run", str(config), "--engine", "spark"]) == 2
    shown = capsys.readouterr()
    assert "engine spark: Blizzard needs Java 17 or 21 for Spark, and found no Java at all: sudo apt" in shown.err
    assert shown.out == ""


def test_a_wrong_engine_is_named_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x.yaml", "--engine", "flink", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "error": "Invalid value for '--engine': 'flink' is not one of 'auto', 'local', 'spark'."
    }


def test_without_spark_no_jars_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    asked = list[list[str]]()
    monkeypatch.setattr(run, "_run", lambda command, check, as_json: check() or asked.append(command) or 0)
    words = ["run", str(config), "--jars", str(tmp_path / "none")]
    assert main(words) == 0
    assert asked[0][-2:] == ["--engine", "configured"]
    assert main([*words, "--engine", "spark"]) == 2
    assert main([*words, "--engine", "local"]) == 0
    config.write_text(CONFIG.replace("table_uri", "engine: spark, table_uri"))
    assert main(words) == 2


def test_only_the_chosen_pipelines_may_need_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pipelines.yaml"
    more = ", q: {engine: spark, table_uri: /tmp/u, sources: {a: {uri: /tmp/r, schema: id STRING}}}}"
    config.write_text(CONFIG.removesuffix("}") + more)
    monkeypatch.setattr(run, "_run", lambda command, check, as_json: check() or 0)
    words = ["run", str(config), "--jars", str(tmp_path / "none")]
    assert main([*words, "--pipeline", "p"]) == 0
    assert main([*words, "--pipeline", "p", "--pipeline", "q"]) == 2
    assert main(words) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_job_that_was_ended_by_a_signal_is_not_silent(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run._run(job(-number), as_json=False) == 1
    shown = capsys.readouterr().err
    assert f"the job was ended by {number.name}; what was committed stays" in shown
    assert ("lower `limits.task_memory_bytes`" in shown) is (number is signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_while_the_job_starts_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C on a terminal, or a service manager. The job imports its modules for some tenths of a second."""
    landing, config = tmp_path / "landing", tmp_path / "pipelines.yaml"
    landing.mkdir()
    config.write_text(CONFIG.replace("/tmp/t", str(tmp_path / "table")).replace("/tmp/s", str(landing)))
    command = [sys.executable, "-c", "import sys; from blizzard.cli import main; sys.exit(main())", "run", str(config)]
    with subprocess.Popen(
        [*command, "--json"],
        env=dict(variables()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        give_up_ts = time.monotonic() + 30
        while not children.read_text():
            assert time.monotonic() < give_up_ts
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["stopped"]


def test_a_cluster_takes_spark_and_its_settings_reach_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    asked = list[list[str]]()
    monkeypatch.setattr(run, "_run", lambda command, check, as_json: check() or asked.append(command) or 0)
    (tmp_path / "some.jar").touch()
    monkeypatch.setattr(job_process, "find_java", lambda: None)
    words = ["run", str(config), "--jars", str(tmp_path)]
    settings = ["--spark-conf", "spark.executor.cores=2", "--spark-conf", "spark.executor.memory=2g"]
    assert main([*words, "--master", "spark://a:1", *settings]) == 0
    assert asked[-1][6:] == ["--jars", str(tmp_path), "--engine", "spark", "--master", "spark://a:1", *settings]
    assert main([*words, "--master", "local[4]"]) == 0
    assert asked[-1][8:] == ["--engine", "configured", "--master", "local[4]"]
    monkeypatch.setenv("BLIZZARD_MASTER", "yarn")
    assert main(words) == 0
    assert asked[-1][8:] == ["--engine", "spark"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--master", "spark://a:1", "--engine", "local"],
            "--engine local: expected spark, or no --engine, with --master",
        ),
        (["--master", "a:1"], "--master: expected local, local[N] or local[*]"),
        (["--spark-conf", "spark.a"], "--spark-conf: expected KEY=VALUE"),
    ],
)
def test_what_no_cluster_can_run_is_wrong_input(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    assert main(["run", str(config), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_wrong_configuration_ends_the_job_that_was_started_meanwhile(tmp_path: Path) -> None:
    """By itself it would go on for ten minutes; the test would run out of time."""
    started = tmp_path / "started"
    script = f"open({str(started)!r}, 'w').close(); import time; time.sleep(600)"

    def check() -> None:
        while not started.exists():
            time.sleep(0.01)
        raise ConfigError(["wrong"])

    with pytest.raises(ConfigError, match="wrong"):
        run._run([sys.executable, "-c", script], check, as_json=False)
