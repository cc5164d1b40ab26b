"""The README's picture of the live view: `python -m infra.local.demo.picture` writes docs/live-view.svg.

The view is the demo's own; what it shows was recorded from a run of `make demo` and is kept in docs/live-view.json.
"""

import argparse
import io
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.markup import escape
from rich.text import Text

from infra.local.demo.view import Figures, View

DOCS = Path(__file__).resolve().parents[3] / "docs"
RECORDING = DOCS / "live-view.json"
PICTURE = DOCS / "live-view.svg"
WIDTH = 92
"""Columns of the terminal: the longest recorded line fits."""


def picture(recording: Path = RECORDING) -> str:
    """The recorded lines and, below them, the live table, as SVG."""
    recorded = json.loads(recording.read_text())
    view = View()
    view._figures = Figures(**recorded["figures"])  # update() would print them too
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, force_terminal=True)
    lines = [Text.from_markup(escape(line)) for line in recorded["lines"]]
    console.print(Group(*lines, view._render()))
    return console.export_svg(title="make demo", unique_id="live-view")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local.demo.picture", description="The README's picture.")
    parser.add_argument("file", nargs="?", type=Path, default=PICTURE, help="output file (default: docs/live-view.svg)")
    parser.parse_args(arguments).file.write_text(picture() + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
