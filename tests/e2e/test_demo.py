"""The whole demo, without a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(1500)
def test_the_demo_kills_the_job_and_ends_with_nothing_missing_or_doubled() -> None:
    words = [sys.executable, "-m", "infra.local.demo", "--timeout-secs", "900"]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=1200)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert any(line.startswith("killed the Spark job in the middle of batch") for line in lines)
    assert any("sweep found" in line for line in lines)
    for counted in (("files in the source", "97"), ("files missing", "0"), ("rows in the table", "19200")):
        assert f"{counted[0]:<20} {counted[1]:>10} {counted[1]:>15}" in lines, lines
    assert {"rows in      19200", "rows out     19200", "missing      0", "doubled      0", "silent       0"} <= set(
        lines
    )
