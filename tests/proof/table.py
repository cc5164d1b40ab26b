"""The table of docs/proof.md: what is broken on purpose, and which campaign finds it. `python -m tests.proof.table`
writes it anew."""

import sys
from pathlib import Path

from tests.proof.campaigns import MODULES, known, load

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"
HEADER = "| what is broken on purpose | is found by | there it shows as |\n|---|---|---|\n"


def variants() -> dict[str, dict[str, str]]:
    """Each variant with the campaigns that have to find it, and how it shows there."""
    found: dict[str, dict[str, str]] = {}
    for name in known():
        for variant, shows in load(MODULES[name]).variants.items():
            found.setdefault(variant, {})[name] = shows
    return found


def as_markdown() -> str:
    rows = (
        f"| {variant} | `{campaign}` | {shows} |\n"
        for variant, campaigns in variants().items()
        for campaign, shows in campaigns.items()
    )
    return HEADER + "".join(rows)


def replaced(document: str) -> str:
    """The document with the table as it has to be."""
    before, header, rest = document.partition(HEADER)
    if not header:
        raise ValueError(f"{DOCUMENT} has no table that begins with {HEADER.splitlines()[0]!r}")
    lines = rest.splitlines(keepends=True)
    after = next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return before + as_markdown() + "".join(lines[after:])


def main() -> int:
    DOCUMENT.write_text(replaced(DOCUMENT.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
