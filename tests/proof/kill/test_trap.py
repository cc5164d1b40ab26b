"""The trap is handed to the processes that read beside the local engine's job."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from blizzard.environment import variables
from blizzard.processes import ReadingProcesses
from blizzard.storage.local import LocalStore
from infra.local.processes.checkout import CHECKOUT
from spark_job.write.upload import ParquetUpload
from tests.proof.kill.trap import hand_to_reading_processes, set_trap

SECS = 120.0
"""For what takes a second on an idle machine."""


def write_beside(folder: str) -> str:
    """The job's own process writes nothing, and waits for its end."""
    if multiprocessing.parent_process() is None:
        time.sleep(SECS)
        return "nobody has killed the job"
    rows = pa.table({"n": [1]})
    upload = ParquetUpload(LocalStore(Path(folder)), "rows.parquet", rows.schema, {})
    upload.write_row_group(rows)
    upload.abort()
    return "written"


def run_job(folder: str) -> None:
    trap = f"{folder}/trap"
    hand_to_reading_processes(trap)
    set_trap(trap, 0, os.getpid())
    ReadingProcesses(2).map(write_beside, [folder, folder])


def test_a_process_beside_the_job_kills_it_in_the_write_of_a_data_file(tmp_path: Path) -> None:
    code = f"from tests.proof.kill.test_trap import run_job; run_job({str(tmp_path)!r})"
    environment = {**variables(), "PYTHONPATH": str(CHECKOUT)}
    job = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environment, timeout=2 * SECS, check=False)
    assert job.returncode == -signal.SIGKILL
    assert not (tmp_path / "trap").exists()
