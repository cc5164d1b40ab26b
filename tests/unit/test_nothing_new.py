"""A run that finds nothing new ends soon: what reads and writes files is not imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from blizzard.environment import variables

CODE = """
import os, sys
from spark_job.main import main
code = main(sys.argv[1:])
print(code, *sys.modules, file=sys.stderr)
sys.stderr.flush()
os._exit(code)
"""
FOR_FILES = {"pyarrow", "spark_job.tasks.reader", "spark_job.formats.registry", "spark_job.write.parquet_files"}


def modules_of_a_run(config: Path, engine: str) -> set[str]:
    command = [sys.executable, "-c", CODE, "--config", str(config), "--sweep", "--once", "--engine", engine]
    done = subprocess.run(command, env=dict(variables()), capture_output=True, text=True, check=True)
    code, *modules = done.stderr.split()
    assert code == "0"
    return {*modules}


@pytest.mark.parametrize("engine", ["local", "auto"])
def test_a_run_that_finds_nothing_new_imports_nothing_that_reads_files(tmp_path: Path, engine: str) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.ndjson").write_text('{"id": "a"}\n')
    config = tmp_path / "pipelines.yaml"
    source = f"{{uri: {tmp_path}/landing, schema: id STRING, pattern: '*.ndjson', settle_delay_secs: 0}}"
    config.write_text(f"pipelines: {{p: {{table_uri: {tmp_path}/table, sources: {{s: {source}}}}}}}")
    assert modules_of_a_run(config, engine) >= FOR_FILES
    assert modules_of_a_run(config, engine) & FOR_FILES == set()
