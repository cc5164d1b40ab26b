"""A translated template with its conditions evaluated, and the facts that rules compare it with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.template.code_facts import CodeFacts
from infra.template.conditions import is_true
from infra.template.references import references
from infra.template.translate import Template, TranslationError
from infra.template.value_pairs import combinations_with_all_pairs

NO_VALUE = object()
S3_ARN = "arn:${AWS::Partition}:s3:::"
"""The prefix of all ARNs of S3."""
PARTITION = "AWS::Partition"
PARTITIONS = ("aws", "aws-cn", "aws-us-gov")
Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EvaluatedTemplate:
    """`template`: without resources and branches whose conditions are false. `with_conditions`: before that."""

    template: Template
    with_conditions: Template
    code: CodeFacts
    runbook: str

    def of_type(self, *types: str) -> dict[str, dict[str, Any]]:
        """The properties of all resources of these types, by logical id."""
        found = self.template["Resources"].items()
        return {name: resource.get("Properties", {}) for name, resource in found if resource["Type"] in types}

    def smallest(self, value: Any) -> float:
        return self._numbers(value)[0]

    def largest(self, value: Any) -> float:
        return self._numbers(value)[1]

    def _numbers(self, value: Any) -> tuple[float, float]:
        """The smallest and the largest value of a number, which may be a parameter."""
        if not isinstance(value, dict):
            return float(value), float(value)
        parameter = self.template["Parameters"][value["Ref"]]
        allowed = [float(choice) for choice in parameter.get("AllowedValues", ())]
        return (
            min(allowed) if allowed else float(parameter["MinValue"]),
            max(allowed) if allowed else float(parameter["MaxValue"]),
        )


def evaluated_templates(template: Template, code: CodeFacts, runbook: str) -> list[EvaluatedTemplate]:
    """One for each of `choices`."""
    return [
        EvaluatedTemplate(with_conditions_evaluated(template, chosen), template, code, runbook)
        for chosen in choices(template)
    ]


def with_conditions_evaluated(template: Template, parameters: Parameters) -> Template:
    """The template with every condition evaluated. References to parameters stay. The partition is `aws` if
    `parameters` name none."""
    conditions = template.get("Conditions", {})
    given = {PARTITION: PARTITIONS[0], **parameters}
    holds = {name: is_true(condition, given, conditions) for name, condition in conditions.items()}
    taken = {section: _without_ifs(template.get(section, {}), holds) for section in ("Resources", "Outputs")}
    kept = {
        section: {name: item for name, item in items.items() if holds.get(item.get("Condition"), True)}
        for section, items in taken.items()
    }
    return {**template, **kept}


def choices(template: Template) -> list[Parameters]:
    """Values of the parameters that conditions depend on. Each two values of two parameters occur together, which finds
    whatever depends on at most two of them, and every condition holds with some choice and fails with another.

    Raises TranslationError for a condition of more parameters that none of these makes true, or none false.
    """
    known, conditions = template.get("Parameters", {}), template.get("Conditions", {})
    used = references(conditions)
    values = {
        name: [str(value) for value in known[name].get("AllowedValues", ["", "some"])]
        for name in sorted(used & known.keys())
    } | ({PARTITION: list(PARTITIONS)} if PARTITION in used else {})
    found: list[Parameters] = list(combinations_with_all_pairs(values)) or [{}]
    for name, condition in conditions.items():
        outcomes = {is_true(condition, chosen, conditions) for chosen in found}
        if len(outcomes) == 1:
            raise TranslationError(
                f"Conditions: {name} is always {outcomes.pop()} with each pair of its parameters' values, so no rule "
                "sees the other case; split it into conditions of two parameters"
            )
    return found


def _without_ifs(value: Any, holds: Mapping[str, bool]) -> Any:
    if isinstance(value, list):
        return [item for item in (_without_ifs(item, holds) for item in value) if item is not NO_VALUE]
    if not isinstance(value, dict):
        return value
    if "Fn::If" in value:
        condition, yes, no = value["Fn::If"]
        return _without_ifs(yes if holds[condition] else no, holds)
    if value == {"Ref": "AWS::NoValue"}:
        return NO_VALUE
    taken = ((key, _without_ifs(item, holds)) for key, item in value.items())
    return {key: item for key, item in taken if item is not NO_VALUE}


def as_text(value: Any) -> str:
    """A value in the syntax of Fn::Sub: `${Bucket}` for a Ref, `${Queue.Arn}` for GetAtt."""
    if isinstance(value, dict) and len(value) == 1:
        if "Ref" in value:
            return f"${{{value['Ref']}}}"
        if "Fn::GetAtt" in value:
            return f"${{{'.'.join(_attribute(value['Fn::GetAtt']))}}}"
        if "Fn::Sub" in value:
            return _sub(value["Fn::Sub"])
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def as_list(value: Any) -> list[Any]:
    """IAM and others accept a single item in place of a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def branches(value: Any) -> list[Any]:
    """As `as_list`, with all that an Fn::If may yield."""
    found = []
    for item in as_list(value):
        if isinstance(item, dict) and "Fn::If" in item:
            found += [part for branch in item["Fn::If"][1:] for part in branches(branch)]
        elif item != {"Ref": "AWS::NoValue"}:
            found.append(item)
    return found


def _attribute(value: Any) -> tuple[str, str]:
    name, attribute = value if isinstance(value, list) else value.split(".", 1)
    return name, attribute


def _sub(value: Any) -> str:
    return value[0] if isinstance(value, list) else str(value)
