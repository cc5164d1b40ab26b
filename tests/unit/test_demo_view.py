"""The demo's output is readable at 80 columns."""

from pathlib import Path

import pytest
from rich.console import Console

from infra.local.demo.picture import PICTURE, main
from infra.local.demo.scenario import wrap_line
from infra.local.demo.view import Figures, View

LETTER = (
    "  date=2026-11-21/1795256313-991ca556.ndjson.gz record 64: parse: not JSON: unexpected end of data: "
    "line 1 column 27 (char 26)"
)


def test_a_long_line_wraps_between_words_only() -> None:
    lines = wrap_line(LETTER, 80).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(lines).split() == LETTER.split()
    assert lines[0].startswith("  date=")


@pytest.mark.parametrize(("rate", "shown"), [(None, "-"), (1234.4, "1,234")])
def test_the_rate_is_of_the_last_commit_or_a_dash_without_a_batch(rate: float | None, shown: str) -> None:
    view = View()
    view.update(Figures(rows_per_sec=rate))
    console = Console(width=80)
    with console.capture() as captured:
        console.print(view._render())
    heads, values = [line.split() for line in captured.get().splitlines() if line.strip()][:2]
    assert dict(zip(reversed(heads), reversed(values), strict=False))["rows/s"] == shown


def test_without_a_terminal_figures_are_printed_when_they_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with View() as view:
        view.print("a run ended: FAILED (it was killed) [not markup]")
        view.update(Figures(seen=2, dead_files=1))
        view.update(Figures(seen=2, dead_files=1))
    assert capsys.readouterr().out.splitlines() == [
        "a run ended: FAILED (it was killed) [not markup]",
        "seen 2, pending 0, committed 0 files 0 rows, dead-lettered 1 files, watermarks 0 partitions",
    ]


def test_the_picture_in_the_documents_is_what_the_command_makes(tmp_path: Path) -> None:
    assert main([str(tmp_path / "view.svg")]) == 0
    assert (tmp_path / "view.svg").read_text() == PICTURE.read_text(), "`python -m infra.local.demo.picture` writes it"
