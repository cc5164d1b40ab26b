"""What a sample of records shows: types, how often fields have a value, examples, and conflicts."""

from functools import partial

from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.observed import EXAMPLE_CHARS, MAP_NAMES, FieldSeen, Observed
from blizzard.infer.text import text_type


def observed(*records: dict[str, object]) -> Observed:
    found = Observed()
    for record in records:
        found.add_record(record)
    return found


def ddl(found: Observed) -> str:
    return ddl_of(found.schema().schema.columns, with_not_null=False)


def test_a_field_is_counted_at_any_depth_where_it_has_a_value() -> None:
    found = observed({"a": 1, "n": {"x": 1}, "l": [{"y": 1}, {"y": None}]}, {"a": None, "l": []}, {})
    assert {path: seen.values for path, seen in found.fields.items()} == {
        "a": 1,
        "n": 1,
        "n.x": 1,
        "l": 2,
        "l[]": 2,
        "l[].y": 1,
    }
    assert found.records == 3


def test_conflicts_are_types_that_only_text_holds_together() -> None:
    found = observed({"a": 1, "b": 1, "c": 1}, {"a": "x", "b": 1.5, "c": {"d": 1}}, {"a": "y", "c": [1]})
    assert found.fields["a"].conflicts() == {"STRING": 2, "BIGINT": 1}
    assert found.fields["b"].conflicts() == {}
    assert found.fields["c"].conflicts() == {"BIGINT": 1, "STRUCT": 1, "ARRAY": 1}
    assert ddl(found) == "a STRING, b DOUBLE, c STRING"


def test_examples_are_different_few_and_short() -> None:
    seen = FieldSeen()
    for value in ("x", "x", "y" * 100, True, {"größe": 1}):
        seen.add(text_type("x"), value)
    assert seen.examples == ["x", "y" * (EXAMPLE_CHARS - 1) + "…", "true"]


def test_names_that_are_values_become_a_map() -> None:
    ids = [f"u{number}" for number in range(MAP_NAMES)]
    found = observed(*({"scores": {name: number}, "all": dict.fromkeys(ids, 1.5)} for number, name in enumerate(ids)))
    assert ddl(found).startswith("scores MAP<STRING, BIGINT>, all STRUCT<u0: DOUBLE, ")
    few = observed(*({"scores": {name: 1}} for name in ids[1:]))
    assert ddl(few).startswith("scores STRUCT<")


def test_the_values_of_such_a_map_are_of_any_type() -> None:
    found = observed(*({"s": {f"u{n}": {"a": n, **({"b": "x"} if n % 2 else {})}}} for n in range(MAP_NAMES)))
    assert ddl(found) == "s MAP<STRING, STRUCT<a: BIGINT, b: STRING>>"


def test_samples_are_joined() -> None:
    found = observed({"a": 1, "b": "x"})
    found.broken = 2
    found.join(observed({"a": 2.5, "c": True}))
    assert ddl(found) == "a DOUBLE, b STRING, c BOOLEAN"
    assert (found.records, found.broken, found.fields["a"].examples) == (2, 2, ["1", "2.5"])


def test_fields_of_text_are_counted_by_column() -> None:
    found = Observed()
    found.add_text_columns({"id": ["1", "2", "2"], "zip": ["10115", None, None]}, 3, partial(text_type))
    found.add_text_columns({"id": ["x"]}, 1, partial(text_type))
    assert ddl(found) == "id STRING, zip STRING"
    assert found.fields["id"].conflicts() == {"BIGINT": 3, "STRING": 1}
    assert (found.records, found.fields["zip"].values) == (4, 1)
