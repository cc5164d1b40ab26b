"""The tables of docs/proof.md: the small worlds with the states that the kept reports counted, and what is broken on
purpose with the campaigns that find it. `python -m tests.proof.table` writes them anew."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.proof.campaign import Fault
from tests.proof.campaigns import MODULES, known, load
from tests.proof.interleavings.campaign import IN_PART, WHOLE, WORLDS, Explorable
from tests.proof.interleavings.worlds import Bounds

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS / "proof.md"
KEPT = DOCS / "proof.json"
HEADER = "| what is broken on purpose | is found by | in `make test` | there it shows as |\n|---|---|---|---|\n"
WORLDS_HEADER = "| world | deaths | lost answers | interruptions | states |\n|---|--:|--:|--:|--:|\n"

Reports = Sequence[Mapping[str, Any]]
"""What `--json` wrote, one after the other."""


def outcomes(reports: Reports) -> list[Mapping[str, Any]]:
    """Of all of them."""
    return [outcome for report in reports for outcome in report["campaigns"]]


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
    """The document with the table of variants as it has to be."""
    return _with(document, HEADER, as_markdown())


# -- the small worlds


def worlds_as_markdown(reports: Reports) -> str:
    """One row for those that differ in nothing but interruptions, with as many states as there are interruptions."""
    wanted = ("small-worlds", "")
    counts = [one["counts"] for one in outcomes(reports) if (one["campaign"], one["variant"]) == wanted]
    rows = (_world_row(bounds, deaths, lost, [*worlds], counts) for (bounds, deaths, lost), worlds in _alike())
    return WORLDS_HEADER + "".join(rows)


def worlds_replaced(document: str, reports: Reports) -> str:
    """The document with the table of worlds as these reports have it."""
    return _with(document, WORLDS_HEADER, worlds_as_markdown(reports))


def _alike() -> Iterator[tuple[tuple[Bounds, int, int], Iterator[Explorable]]]:
    first = {_kind(world): number for number, world in reversed([*enumerate(WORLDS)])}
    return groupby(sorted(WORLDS, key=lambda world: first[_kind(world)]), key=_kind)


def _kind(world: Explorable) -> tuple[Bounds, int, int]:
    return world.bounds, world.crashes, world.lost


def _world_row(
    bounds: Bounds, deaths: int, lost: int, worlds: Sequence[Explorable], counts: Sequence[Mapping[str, int]]
) -> str:
    interruptions = " / ".join("any" if world.switches is None else f"{world.switches}" for world in worlds)
    states = [_states(world, counts) for world in worlds]
    told = " / ".join(each or "-" for each in states) if any(states) else ""
    return f"| {_in_words(bounds)} | {deaths} | {lost} | {interruptions} | {told} |\n"


def _states(world: Explorable, counts: Sequence[Mapping[str, int]]) -> str:
    """Of a world that was explored to its end all, of another one at least how many; empty where it was not begun."""
    if whole := max((each.get(WHOLE.format(world), 0) for each in counts), default=0):
        return f"{whole:,}"
    part = max((each.get(IN_PART.format(world), 0) for each in counts), default=0)
    return f"more than {part:,}" if part else ""


def _in_words(bounds: Bounds) -> str:
    sweeper = "stale sweeper" if bounds.stale else "sweeper"
    late = "stale late sweeper" if bounds.stale else "late sweeper"
    named = {"collector": bounds.collectors, sweeper: bounds.sweepers, late: bounds.late, "job": bounds.jobs}
    who = [f"a {name}" if many == 1 else f"{many} {name}s" for name, many in named.items() if many]
    more = (
        ", and somebody who deletes the manifest" if bounds.wipers else "",
        ", and a bad file" if bounds.bad else "",
        ", files in folders" if bounds.folders else "",
        ", the ledger merged all the time" if bounds.merged else "",
    )
    return " and ".join(part for part in (", ".join(who[:-1]), who[-1]) if part) + "".join(more)


def _with(document: str, header: str, table: str) -> str:
    before, found, rest = document.partition(header)
    if not found:
        raise ValueError(f"{DOCUMENT} has no table that begins with {header.splitlines()[0]!r}")
    return before + table + "".join(_after(rest.splitlines(keepends=True)))


def _after(lines: Iterable[str]) -> list[str]:
    """What follows on the rows of a table."""
    kept = [*lines]
    first = next((number for number, line in enumerate(kept) if not line.startswith("|")), len(kept))
    return kept[first:]


def main() -> int:
    DOCUMENT.write_text(worlds_replaced(replaced(DOCUMENT.read_text()), json.loads(KEPT.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
