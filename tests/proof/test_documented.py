"""docs/proof.md is true to the campaigns."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.proof.campaigns import MODULES, known, load
from tests.proof.every_way import CAMPAIGN as SMALL_WORLDS
from tests.proof.table import DOCUMENT, HEADER, long_only, replaced
from tests.proof.variants import VARIANTS

TEXT = DOCUMENT.read_text()


def test_the_table_of_variants_is_that_of_the_campaigns() -> None:
    assert replaced(TEXT) == TEXT, "`python -m tests.proof.table` writes it anew"


def test_each_variant_is_tried_by_a_test_or_said_to_be_of_the_long_form_alone() -> None:
    modules = [import_module(f"tests.proof.{file.stem}") for file in Path(__file__).parent.glob("test_*.py")]
    tried = {name: frozenset[str]() for name in known()}
    for module in modules:
        for name, some in getattr(module, "TRIED", {}).items():
            tried[name] |= some
    assert {name: {*load(MODULES[name]).variants} - long_only()[name] for name in known()} == tried


def test_the_table_is_replaced_and_nothing_else() -> None:
    rows = HEADER + "| old | `kill` | yes | here |\n"
    assert replaced(f"before\n{rows}\nafter\n") == replaced(f"before\n{HEADER}\nafter\n")
    assert replaced(f"before\n{rows}\nafter\n").startswith("before\n")
    assert replaced(f"before\n{rows}\nafter\n").endswith("|\n\nafter\n")
    with pytest.raises(ValueError, match="no table that begins"):
        replaced("nothing")


def test_each_campaign_has_its_section() -> None:
    assert re.findall(r"^### (.+)$", TEXT, re.MULTILINE) == known()


def test_each_option_is_explained() -> None:
    tree = ast.parse((Path(__file__).parent / "__main__.py").read_text())
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    added = {call.args[0].value for call in calls if call.func.attr == "add_argument"}  # type: ignore[attr-defined]
    explained = {name.split()[0] for name in re.findall(r"^\| `(--[^`]+)` \|", TEXT, re.MULTILINE)}
    assert explained == {str(name) for name in added if str(name).startswith("-")}


def test_each_world_that_is_broken_on_purpose_is_a_variant_of_the_small_worlds() -> None:
    assert set(SMALL_WORLDS.variants) == set(VARIANTS)
    assert load("tests.proof.every_way") is SMALL_WORLDS
