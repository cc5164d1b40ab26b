"""Whole runs of `blizzard run --once` with the local engine, from a folder to a table."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def run(folder: Path, *source: str) -> list[dict[str, Any]]:
    """`blizzard run --once`; its events."""
    (folder / "in").mkdir(exist_ok=True)
    pipeline = ["pipelines:", "  p:", f"    table_uri: {folder}/table", "    sources:", "      s:"]
    lines = [*pipeline, *(f"        {line}" for line in (f"uri: {folder}/in", *source)), ""]
    (folder / "pipelines.yaml").write_text("\n".join(lines))
    words = [str(Path(sys.executable).with_name("blizzard")), "run", "--once", "--json", "--engine", "local"]
    done = subprocess.run([*words, str(folder / "pipelines.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(str(folder / "table")).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["_source"]["file"], row["_source"]["row"]))
