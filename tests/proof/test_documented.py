"""docs/proof.md is true to the campaigns."""

import ast
import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from infra.local.processes.checkout import CHECKOUT
from tests.proof.campaigns import MODULES, known, load
from tests.proof.interleavings.campaign import CAMPAIGN as SMALL_WORLDS
from tests.proof.interleavings.campaign import WORLDS, Explorable
from tests.proof.interleavings.variants import PROGRAMS, VARIANTS
from tests.proof.interleavings.worlds import Bounds
from tests.proof.table import (
    DOCUMENT,
    HEADER,
    KEPT,
    WORLDS_HEADER,
    long_only,
    replaced,
    worlds_as_markdown,
    worlds_replaced,
)

TEXT = DOCUMENT.read_text()


def test_the_documented_variants_are_those_of_the_campaigns() -> None:
    assert replaced(TEXT) == TEXT, "`python -m tests.proof.table` writes it anew"


def test_the_documented_worlds_have_the_states_of_the_stored_reports() -> None:
    reports = json.loads(KEPT.read_text())
    assert worlds_replaced(TEXT, reports) == TEXT, "`python -m tests.proof.figures` writes it anew"


def _report(variant: str = "", **counts: int) -> dict[str, Any]:
    return {"campaigns": [{"campaign": "small-worlds", "variant": variant, "counts": counts}]}


def test_worlds_have_the_counted_states_and_say_whether_they_are_complete() -> None:
    pair, few = Bounds(2, 0, 1), Bounds(1, 1, 1, bad=True)
    table = worlds_as_markdown(
        [
            _report(**{f"states of {Explorable(pair, 0, 0)}": 102, f"states so far of {Explorable(pair, 0, 2)}": 7}),
            _report(**{f"states so far of {Explorable(pair, 0, 2)}": 1488, f"states of {Explorable(few, 2)}": 43_368}),
            _report(variant="x", **{f"states of {Explorable(pair, 2)}": 5}),
            _report(**{f"states of {Explorable(pair, 2, None, 1)}": 9}),
        ]
    )
    assert "| 2 collectors and a job | 0 | 0 | 0 / 1 / 2 | 102 / - / more than 1,488 |\n" in table
    assert "| a collector, a sweeper and a job, and a bad file | 2 | 0 | any | 43,368 |\n" in table
    assert "| 2 collectors and a job | 2 | 1 | any | 9 |\n" in table
    assert "| a collector, a sweeper and a job, and somebody who deletes the manifest | 2 | 0 | any |  |\n" in table


def test_each_world_has_one_row() -> None:
    rows = [line.split(" | ") for line in worlds_as_markdown([]).splitlines()[2:]]
    assert sum(len(row[3].split(" / ")) for row in rows) == len(WORLDS)
    assert len({(row[0], row[1], row[2]) for row in rows}) == len(rows)


def test_each_variant_has_a_test_or_is_marked_as_long_form_only() -> None:
    files = (CHECKOUT / "tests" / "proof").rglob("test_*.py")
    modules = [import_module(".".join(file.relative_to(CHECKOUT).with_suffix("").parts)) for file in files]
    tried = {name: frozenset[str]() for name in known()}
    for module in modules:
        for name, some in getattr(module, "TRIED", {}).items():
            tried[name] |= some
    assert {name: {*load(MODULES[name]).variants} - long_only()[name] for name in known()} == tried


@pytest.mark.parametrize(
    ("header", "anew"),
    [(HEADER, replaced), (WORLDS_HEADER, lambda text: worlds_replaced(text, []))],
    ids=["variants", "worlds"],
)
def test_only_the_table_is_replaced(header: str, anew: Callable[[str], str]) -> None:
    rows = header + "| old | 1 | yes | here |\n"
    assert anew(f"before\n{rows}\nafter\n") == anew(f"before\n{header}\nafter\n")
    assert anew(f"before\n{rows}\nafter\n").startswith("before\n")
    assert anew(f"before\n{rows}\nafter\n").endswith("|\n\nafter\n")
    assert "| old |" not in anew(f"before\n{rows}\nafter\n")
    with pytest.raises(ValueError, match="no table that begins"):
        anew("nothing")


def test_each_campaign_has_a_section() -> None:
    assert re.findall(r"^### (.+)$", TEXT, re.MULTILINE) == known()


def test_each_option_is_documented() -> None:
    tree = ast.parse((Path(__file__).parent / "__main__.py").read_text())
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    added = {call.args[0].value for call in calls if call.func.attr == "add_argument"}  # type: ignore[attr-defined]
    explained = {name.split()[0] for name in re.findall(r"^\| `(--[^`]+)` \|", TEXT, re.MULTILINE)}
    assert explained == {str(name) for name in added if str(name).startswith("-")}


def test_each_world_broken_on_purpose_is_a_variant_of_the_small_worlds() -> None:
    assert {*SMALL_WORLDS.variants} == {*VARIANTS, *PROGRAMS}
    assert load("tests.proof.interleavings.campaign") is SMALL_WORLDS
