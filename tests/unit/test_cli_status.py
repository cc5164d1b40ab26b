"""`blizzard status`, as people see it."""

import json
from pathlib import Path

import pytest

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[/b]x", "`[/b]x`"),  # Rich would take it for the end of a tag that does not begin
        ("[red]x", "`[red]x`"),
        ("\x1b[31mx", "`\\x1b[31mx`"),
        ("two\nlines", "two\\nlines"),
        ("", "``"),
    ],
)
def test_names_of_fields_and_files_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    world = OperatorWorld(tmp_path, {"pattern": "**"})
    world.land_bytes("[/i]\x1b[2J.ndjson", (json.dumps({"id": "a", name: 1}) + "\n").encode())
    world.run()
    assert main(["status", str(world.config_file)]) == 0
    said = capsys.readouterr().out
    assert f" {shown} (records: 1, first in [/i]\\x1b[2J.ndjson)" in said
    assert " [/i]\\x1b[2J.ndjson (Active)" in said
    assert "\x1b" not in said
