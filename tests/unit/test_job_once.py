"""The job with `--once`: its time limit, and how it ends."""

import json
import socket
from pathlib import Path

import pytest

from spark_job import main as job
from spark_job.loop.ingest import Step
from tests.unit.fakes import Clock
from tests.unit.scripted_source import ScriptedIngest, Source


class UnendingBacklog(ScriptedIngest):
    def step(self, *, draining: bool) -> Step:
        self.totals.commits += 1
        assert self.totals.commits < 1_000_000, "no end in sight"
        return Step.COMMITTED


class IngestWithoutSpark(ScriptedIngest):
    def step(self, *, draining: bool) -> Step:
        """As py4j does it."""
        with socket.socket() as nobody_listens:
            nobody_listens.bind(("127.0.0.1", 0))
            socket.create_connection(nobody_listens.getsockname()).close()
        return Step.IDLE


@pytest.mark.usefixtures("signals_as_before")
class TestTheJobsOption:
    CONFIG = "pipelines: {p: {table_uri: /tmp/t, sources: {a: {uri: /tmp/s, schema: id STRING}}}}"

    def config(self, folder: Path) -> str:
        (folder / "pipelines.yaml").write_text(self.CONFIG)
        return str(folder / "pipelines.yaml")

    def test_the_run_ends_with_success_though_files_keep_coming(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = Source(UnendingBacklog(Clock(), []))
        monkeypatch.setattr(job, "_jobs", lambda *_: [source])
        assert job.main(["--config", self.config(tmp_path), "--once", "--max-secs", "0.05"]) == job.EXIT_OK
        assert [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()] == ["time_is_up"]

    def test_a_run_whose_jvm_has_ended_logs_that_and_what_to_do(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(job, "_jobs", lambda *_: [Source(IngestWithoutSpark(Clock(), []))])
        assert job.main(["--config", self.config(tmp_path), "--once"]) == job.EXIT_FAILED
        (lost,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert lost["event"] == "spark_lost"
        assert "Connection refused" in lost["error"]
        assert "start it again" in lost["error"]

    @pytest.mark.parametrize(
        "wrong", [["--max-secs", "60"], ["--once", "--max-secs", "-1"], ["--once", "--max-secs", "x"]]
    )
    def test_an_invalid_limit_is_refused(
        self, wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            job.main(["--config", self.config(tmp_path), *wrong])
        assert ended.value.code == job.EXIT_CONFIG
        assert "--max-secs" in capsys.readouterr().err
