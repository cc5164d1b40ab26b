"""The combinations of parameter values that our rules see."""

from itertools import combinations

import pytest

from infra.template.evaluated import PARTITION, PARTITIONS, choices
from infra.template.translate import Template, TranslationError
from infra.template.value_pairs import combinations_with_all_pairs
from tests.stack.broken_template import shipped

EMPTY = {"Fn::Equals": [{"Ref": "A"}, ""]}


def pairs(values: dict[str, list[str]]) -> set[frozenset[tuple[str, str]]]:
    return {
        frozenset(((one, x), (other, y)))
        for one, other in combinations(values, 2)
        for x in values[one]
        for y in values[other]
    }


@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_every_pair_of_values_occurs_in_few_combinations(count: int) -> None:
    values = {f"P{number}": ["a", "b", "c"] if number % 5 == 0 else ["", "some"] for number in range(count)}
    found = list(combinations_with_all_pairs(values))
    assert pairs(values) <= {frozenset(pair) for chosen in found for pair in combinations(chosen.items(), 2)}
    assert all(chosen.keys() == values.keys() for chosen in found)
    assert len(found) <= 30


def test_a_single_parameter_has_each_of_its_values() -> None:
    assert list(combinations_with_all_pairs({"Mode": ["a", "b", "c"]})) == [{"Mode": "a"}, {"Mode": "b"}, {"Mode": "c"}]


def test_the_rules_see_every_pair_of_values_of_the_shipped_template() -> None:
    template = shipped().with_conditions
    found = choices(template)
    parameters = {**template["Parameters"], PARTITION: {"AllowedValues": list(PARTITIONS)}}
    values = {name: parameters[name].get("AllowedValues", ["", "some"]) for name in found[0]}
    assert {"LandingBucketMode", "ApplicationId", PARTITION} <= values.keys()
    assert pairs(values) <= {frozenset(pair) for chosen in found for pair in combinations(chosen.items(), 2)}
    assert len(found) <= 30


def test_a_template_without_conditions_is_seen_once() -> None:
    assert choices({"Parameters": {"A": {"Type": "String"}}}) == [{}]


def test_a_condition_that_no_pair_of_values_makes_true_is_refused() -> None:
    """One of three parameters, all of which must have their third value."""
    names = ("A", "B", "C")
    template: Template = {
        "Parameters": {name: {"AllowedValues": ["1", "2", "3", "4"]} for name in names},
        "Conditions": {"Rare": {"Fn::And": [{"Fn::Equals": [{"Ref": name}, "3"]} for name in names]}},
    }
    with pytest.raises(TranslationError, match="Conditions: Rare is always False with each pair"):
        choices(template)
