"""Whole runs of `blizzard run --once` with the local engine, from a folder to a table."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def run(folder: Path, *source: str) -> list[dict[str, Any]]:
    """`blizzard run --once`; its events."""
    words = [str(Path(sys.executable).with_name("blizzard")), "run", "--once", "--json", "--engine", "local"]
    return _events([*words, str(_config(folder, source))], 0)


def run_killed_after_a_commit(folder: Path, *source: str) -> list[dict[str, Any]]:
    """The events of a run whose process is killed right after its first commit."""
    words = [sys.executable, "-m", "tests.unit.killed_run", "--once", "--sweep", "--engine", "local", "--config"]
    return _events([*words, str(_config(folder, source))], -signal.SIGKILL)


def _config(folder: Path, source: tuple[str, ...]) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    pipeline = ["pipelines:", "  p:", f"    table_uri: {folder}/table", "    sources:", "      s:"]
    lines = [*pipeline, *(f"        {line}" for line in (f"uri: {folder}/in", *source)), ""]
    (folder / "pipelines.yaml").write_text("\n".join(lines))
    return folder / "pipelines.yaml"


def _events(words: list[str], code: int) -> list[dict[str, Any]]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["_source"]["file"], row["_source"]["row"]))


def letters_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("table/_blizzard/*/dead_letters/*/*.ndjson"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
