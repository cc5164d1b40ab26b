"""The table of docs/proof.md: what is broken on purpose, and which campaign finds it. `python -m tests.proof.table`
writes it anew."""

import sys
from importlib import import_module
from pathlib import Path

from tests.proof.campaign import Fault
from tests.proof.campaigns import MODULES, known, load

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"
HEADER = "| what is broken on purpose | is found by | in `make test` | there it shows as |\n|---|---|---|---|\n"


def variants() -> dict[str, dict[str, Fault]]:
    """Each variant with the campaigns that have to find it."""
    found: dict[str, dict[str, Fault]] = {}
    for name in known():
        for variant, fault in load(MODULES[name]).variants.items():
            found.setdefault(variant, {})[name] = fault
    return found


def long_only() -> dict[str, frozenset[str]]:
    """By campaign, the variants for which a short form is too short."""
    modules = {name: import_module(MODULES[name]) for name in known()}
    return {name: getattr(module, "LONG_ONLY", frozenset()) for name, module in modules.items()}


def as_markdown() -> str:
    long = long_only()
    rows = (
        f"| {variant} | `{campaign}` | {'long form' if variant in long[campaign] else 'yes'} | {fault.shows} |\n"
        for variant, campaigns in variants().items()
        for campaign, fault in campaigns.items()
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
