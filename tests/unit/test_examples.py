"""Each example with local files runs as it is, with the command that its first line names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables

ROOT = Path(__file__).parents[2]
ROWS = {
    "avro": (2, 0),
    "binary": (1, 0),
    "csv": (4, 1),
    "json": (3, 1),
    "mixed": (5, 0),
    "ndjson": (60, 0),
    "orc": (2, 0),
    "parquet": (3, 0),
    "text": (2, 0),
    "xml": (2, 0),
}
"""By format, the rows and the dead letters."""


def test_each_format_has_an_example_that_runs() -> None:
    assert {file.stem.removeprefix("local-") for file in (ROOT / "examples").glob("local-*.yaml")} == {*ROWS}


@pytest.mark.parametrize("name", ROWS)
def test_an_example_gives_its_rows(name: str, tmp_path: Path) -> None:
    file = f"examples/local-{name}.yaml"
    command = (ROOT / file).read_text().splitlines()[0].partition(": ")[2]
    assert command.endswith(f"blizzard run --once {file}")
    environment = {**variables(), "BLIZZARD_EXAMPLE_TABLE": str(tmp_path / "table")}
    words = [str(Path(sys.executable).with_name("blizzard")), "run", "--once", "--json", "--engine", "local", file]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    committed = [
        event for line in done.stdout.splitlines() if (event := json.loads(line))["event"] == "batch_committed"
    ]
    rows, letters = ROWS[name]
    assert [(event["rows"], event["dead_records"], event["dead_files"]) for event in committed] == [(rows, letters, 0)]
    assert DeltaTable(str(tmp_path / "table")).to_pyarrow_table().num_rows == rows
