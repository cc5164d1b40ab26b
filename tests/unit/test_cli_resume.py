"""`blizzard resume`: its output, what it changes, and what it does not touch."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from blizzard.cli import main
from blizzard.dispatch.decide import RESUMED
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.errors import AlreadyExists
from blizzard.storage.local import LocalStore

CONFIG = """
pipelines:
  events:
    table_uri: {lake}/events
    sources:
      landing: {{uri: "{lake}/in", schema: "id STRING"}}
  clicks:
    table_uri: {lake}/clicks
    sources:
      web: {{uri: "{lake}/in2", schema: "id STRING"}}
"""
OPEN = RunRecord(
    4, "events", "e", 3, Phase.OPEN, "f", token_used=True, run_id="r3", failures=5, not_before_ts=9e9, reason="boom"
)

Resume = Callable[..., tuple[int, str, str]]


@pytest.fixture
def resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Resume:
    (tmp_path / "pipelines.yaml").write_text(CONFIG.format(lake=tmp_path))

    def run(*options: str) -> tuple[int, str, str]:
        code = main(["resume", str(tmp_path / "pipelines.yaml"), *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def runs(tmp_path: Path, pipeline: str = "events") -> RunLog:
    ids = itertools.count()
    return RunLog(LocalStore(str(tmp_path / pipeline), may_be_missing=True), pipeline, lambda: f"{pipeline}{next(ids)}")


def written(tmp_path: Path, record: RunRecord) -> None:
    runs(tmp_path, record.pipeline).append(record, now_ts=1.0)


def test_an_open_circuit_is_closed(tmp_path: Path, resume: Resume) -> None:
    written(tmp_path, OPEN)
    code, output, _ = resume("--pipeline", "events")
    assert code == 0
    assert output == (
        "events: resumed after 5 failed runs (circuit open; the last: boom); "
        "the dispatcher starts the next run within its schedule\n"
    )
    latest = runs(tmp_path).latest()
    assert latest is not None
    assert (latest.number, latest.phase, latest.failures, latest.not_before_ts, latest.reason) == (
        5,
        Phase.FAILED,
        0,
        0.0,
        RESUMED,
    )
    assert (latest.attempt, latest.token_used, latest.epoch) == (3, True, "e"), "or the next run would repeat a token"


def test_a_backoff_after_a_failure_is_ended(tmp_path: Path, resume: Resume) -> None:
    written(tmp_path, RunRecord(0, "events", "e", 1, Phase.FAILED, "f", failures=1, not_before_ts=9e9, reason="boom"))
    assert "after 1 failed run (waiting" in resume("--pipeline", "events")[1]


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        (RunRecord(0, "events", "e", 1, Phase.RUNNING, "f", run_id="r1"), "nothing to resume, run r1 is active"),
        (RunRecord(0, "events", "e", 1, Phase.STARTING, "f"), "nothing to resume, run (starting) is active"),
        (RunRecord(0, "events", "e", 1, Phase.SUCCEEDED, "f"), "nothing to resume, the last run did not fail"),
        (RunRecord(0, "events", "e", 1, Phase.FAILED, "f"), "nothing to resume, the last run did not fail"),
        (RunRecord(0, "events", "e", 1, Phase.FAILED, "f", reason=RESUMED), "resumed already"),
    ],
)
def test_with_nothing_to_resume_nothing_is_written(
    tmp_path: Path, resume: Resume, record: RunRecord, answer: str
) -> None:
    written(tmp_path, record)
    assert resume("--pipeline", "events")[:2] == (0, f"events: {answer}\n")
    latest = runs(tmp_path).latest()
    assert latest is not None
    assert latest.number == 0


def test_without_a_name_all_pipelines_are_resumed(tmp_path: Path, resume: Resume) -> None:
    written(tmp_path, OPEN)
    code, output, _ = resume()
    assert code == 0
    assert [line.split(": ")[1].split(" ")[0] for line in output.splitlines()] == ["resumed", "nothing"]


def test_an_unknown_pipeline_is_an_input_error(tmp_path: Path, resume: Resume) -> None:
    written(tmp_path, OPEN)
    code, output, error = resume("--pipeline", "evnets")
    assert (code, output) == (2, "")
    assert "--pipeline evnets: expected one of events, clicks" in error


def test_a_record_written_by_a_dispatcher_in_between_does_no_harm(
    tmp_path: Path, resume: Resume, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, OPEN)
    original, raced = RunLog.append, []

    def late(self: RunLog, record: RunRecord, *, now_ts: float) -> RunRecord:
        if not raced:
            raced.append(original(runs(tmp_path), record, now_ts=now_ts))
            raise AlreadyExists("another writer was first")
        return original(self, record, now_ts=now_ts)

    monkeypatch.setattr(RunLog, "append", late)
    assert resume("--pipeline", "events")[:2] == (0, "events: resumed already\n")


def test_status_shows_the_last_run_and_what_closes_the_circuit(
    tmp_path: Path, resume: Resume, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, OPEN)
    assert main(["status", "--json", str(tmp_path / "pipelines.yaml")]) == 0
    events, clicks = json.loads(capsys.readouterr().out)
    assert (events["run"]["phase"], events["run"]["failures"], events["run"]["reason"]) == ("open", 5, "boom")
    assert clicks["run"] is None
    main(["status", str(tmp_path / "pipelines.yaml")])
    shown = capsys.readouterr().out
    assert "circuit open after 5 failures; `blizzard resume` closes it (boom)" in " ".join(shown.split())
    resume()
    main(["status", str(tmp_path / "pipelines.yaml")])
    assert f"failed r3 ({RESUMED})" in capsys.readouterr().out


def test_status_reports_a_record_that_cannot_be_read(
    tmp_path: Path, resume: Resume, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, OPEN)
    (tmp_path / "events" / "_blizzard" / "_runs" / "events" / f"{4:020d}.json").write_text("{torn")
    assert main(["status", "--json", str(tmp_path / "pipelines.yaml")]) == 1
    assert "run record 4 of pipeline events" in json.loads(capsys.readouterr().out)[0]["problem"]
