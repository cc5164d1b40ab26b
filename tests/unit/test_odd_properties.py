"""Whatever JSON records hold: rules change nothing of what fits, and lose nothing of what does not."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.json.odd_parser import OddJsonParser
from spark_job.table.schema import columns_of
from tests.unit.format_reading import Read, read_file
from tests.unit.odd_reading import RESCUE, columns, rescued

DDL = "a INT, b STRING NOT NULL, s STRUCT<c: DOUBLE, t: STRUCT<a: BOOLEAN>>, l ARRAY<STRUCT<a: INT>>, `s.c` INT"
KEYS = ["a", "b", "c", "t", "x", "s", "l", "s.c", "s.x", "l[0].x", "`s.x`", "{x}"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 1e300, "word", "5", 3_000_000_000]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-9, 9) | st.none(),
        "b": st.sampled_from(["x", "ü", ""]),
        "s": st.fixed_dictionaries(
            {},
            optional={
                "c": st.sampled_from([1.5, 2, None]),
                "t": st.fixed_dictionaries({}, optional={"a": st.booleans()}) | st.none(),
            },
        )
        | st.none(),
        "l": st.lists(st.fixed_dictionaries({}, optional={"a": st.integers(0, 9)}), max_size=2) | st.none(),
    },
)
RECORDS = st.lists(
    FITTING | st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(lambda made: {"b": "x", **made}),
    min_size=1,
    max_size=6,
)


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(record, ensure_ascii=False).encode() for record in records)


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is not null, and no object and no array, by its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"`{key.replace('`', '``')}`" if {*key} & {*".[]{}`"} else key
            yield from leaves(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, f"{place}[{at}]")
    elif value is not None:
        yield place, value


def kept(read: Read, number: int) -> dict[str, Any]:
    """The values of a row, and those that are rescued of it, by their places in the record."""
    row = dict(read.rows[number])
    text = row.pop(RESCUED)
    found = dict(leaves(row))
    for place, value in (orjson.loads(text) if text else {}).items():
        more = dict(leaves(value, place))
        assert not more.keys() & found.keys()
        found |= more
    return found


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_each_value_is_in_a_column_or_rescued(records: list[dict[str, Any]]) -> None:
    read = read_file("ndjson", DDL, lines(records), rules=RESCUE)
    for number in read.rows:
        assert kept(read, number) == dict(leaves(records[number]))


COLLIDING = st.fixed_dictionaries(
    {"b": st.just("x")},
    optional={
        "s": st.dictionaries(st.sampled_from(["c", "x"]), st.sampled_from([1, "one"]), min_size=1),
        "l": st.lists(st.dictionaries(st.just("x"), st.integers(0, 9)), max_size=2),
        **dict.fromkeys(("s.c", "s.x", "l[0].x", "`s.x`"), st.sampled_from([2, "two"])),
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(COLLIDING, min_size=1, max_size=4))
def test_keys_that_look_like_places_lose_no_value(records: list[dict[str, Any]]) -> None:
    """Whatever the places are called."""
    read = read_file("ndjson", DDL, lines(records), rules=RESCUE)
    for number, row in read.rows.items():
        text = row[RESCUED]
        found = [{name: value for name, value in row.items() if name != RESCUED}, orjson.loads(text) if text else {}]
        stored = Counter(value for part in found for _, value in leaves(part))
        assert stored == Counter(value for _, value in leaves(records[number]))


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_what_fits_without_rules_is_the_same_with_them(records: list[dict[str, Any]]) -> None:
    stored = lines(records)
    plain = read_file("ndjson", DDL, stored)
    for rules in (RESCUE, SchemaRules("add", "widen", "ignore_case")):
        read = read_file("ndjson", DDL, stored, rules=rules)
        assert plain.rows.keys() <= read.rows.keys()
        ruled = dict(zip(read.rows, columns(read), strict=True))
        assert {number: ruled[number] for number in plain.rows} == plain.rows
        assert all(why is None or "NOT NULL" in why or why.startswith("b:") for why in read.reasons.values())
        assert sorted([*read.rows, *read.reasons]) == [*range(len(records))]


def respelled(value: Any, spell: random.Random) -> Any:
    """With the letters of keys in upper or lower case."""
    if isinstance(value, dict):
        return {spell.choice([str.upper, str.lower])(key): respelled(inner, spell) for key, inner in value.items()}
    return [respelled(inner, spell) for inner in value] if isinstance(value, list) else value


@settings(max_examples=60, deadline=None)
@given(st.lists(FITTING, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_keys_in_any_case_give_the_same_rows(records: list[dict[str, Any]], spell: random.Random) -> None:
    rules = SchemaRules("rescue", keys="ignore_case")
    expected = read_file("ndjson", DDL, lines(records), rules=rules)
    read = read_file("ndjson", DDL, lines([respelled(record, spell) for record in records]), rules=rules)
    assert (read.rows, read.reasons) == (expected.rows, expected.reasons)
    assert set(rescued(read).values()) <= {None}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["exact", "upper", "mixed"]), RECORDS), min_size=2, max_size=5))
def test_a_spelling_that_was_learned_changes_no_row(blocks: list[tuple[str, list[dict[str, Any]]]]) -> None:
    rules = SchemaRules("rescue", "rescue", "ignore_case")
    learning = OddJsonParser(columns_of(DDL), rules)
    for case, records in blocks:
        spell = random.Random(len(records))
        made = [respelled(record, spell) if case == "mixed" else record for record in records]
        stored = lines(made)
        if case == "upper":
            stored = lines([json.loads(json.dumps(record), object_pairs_hook=upper) for record in records])
        anew, found = OddJsonParser(columns_of(DDL), rules).parse(stored), learning.parse(stored)
        assert found.records.to_pylist() == anew.records.to_pylist()
        assert (found.refused, found.refused_texts, found.odd) == (anew.refused, anew.refused_texts, anew.odd)
        assert [*found.numbers] == [*anew.numbers]


def upper(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key.upper(): value for key, value in pairs}
