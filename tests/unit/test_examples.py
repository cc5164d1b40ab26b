"""Each example with local files runs as it is, with the command that its first line names, and gives what is in its
files."""

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables
from tests.unit import example_rows
from tests.unit.example_rows import LETTERS, Row, plain

ROOT = Path(__file__).parents[2]


def readings() -> list[Row]:
    """Of the example of NDJSON, as Python's JSON reads it."""
    folder, rows = ROOT / "examples" / "data" / "readings", list[Row]()
    for file in sorted(folder.rglob("*.ndjson*")):
        body = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        day = {"date": date.fromisoformat(file.parent.name.removeprefix("date="))}
        path = file.relative_to(folder).as_posix()
        rows += [(path, number, {**json.loads(line), **day}) for number, line in enumerate(body.splitlines())]
    return rows


ROWS: Mapping[str, Sequence[Row]] = {**example_rows.ROWS, "ndjson": readings()}


def test_each_format_has_an_example_that_runs() -> None:
    assert {file.stem.removeprefix("local-") for file in (ROOT / "examples").glob("local-*.yaml")} == {*ROWS}
    assert len(ROWS["ndjson"]) == 60


@pytest.mark.parametrize("name", ROWS)
def test_an_example_gives_the_rows_and_letters_of_its_files(name: str, tmp_path: Path) -> None:
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
    rows, letters = ROWS[name], LETTERS.get(name, ())
    assert [(event["rows"], event["dead_records"], event["dead_files"]) for event in committed] == [
        (len(rows), len(letters), 0)
    ]
    found = map(plain, DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist())
    assert sorted(found, key=lambda row: row[:2]) == [*rows]
    files = (tmp_path / "table").glob("_blizzard/*/dead_letters/*/*.ndjson")
    refused = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [(letter["path"], letter["row"]) for letter in refused] == [*letters]
