"""A translated template with its conditions evaluated, and the facts that rules compare it with."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from infra.template.code_facts import CodeFacts
from infra.template.translate import Template

NO_VALUE = object()
S3_ARN = "arn:${AWS::Partition}:s3:::"
"""The prefix of all ARNs of S3."""
Parameters = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stack:
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


def stacks(template: Template, code: CodeFacts, runbook: str) -> list[Stack]:
    """One for each combination of parameter values that conditions depend on."""
    return [
        Stack(with_conditions_evaluated(template, chosen), template, code, runbook) for chosen in _choices(template)
    ]


def with_conditions_evaluated(template: Template, parameters: Parameters) -> Template:
    """The template with every condition evaluated. References to parameters stay."""
    conditions = template.get("Conditions", {})
    holds = {name: _holds(condition, conditions, parameters) for name, condition in conditions.items()}
    taken = {section: _without_ifs(template.get(section, {}), holds) for section in ("Resources", "Outputs")}
    kept = {
        section: {name: item for name, item in items.items() if holds.get(item.get("Condition"), True)}
        for section, items in taken.items()
    }
    return {**template, **kept}


def _choices(template: Template) -> Iterator[Parameters]:
    known = template.get("Parameters", {})
    used = sorted(references(template.get("Conditions", {})) & known.keys())
    values = [known[name].get("AllowedValues", ["", "some"]) for name in used]
    for combination in product(*values):
        yield dict(zip(used, combination, strict=True))


def _holds(condition: Any, conditions: Mapping[str, Any], parameters: Parameters) -> bool:
    ((function, operands),) = condition.items()
    if function == "Fn::Equals":
        left, right = (parameters[o["Ref"]] if isinstance(o, dict) else o for o in operands)
        return bool(left == right)
    if function == "Condition":
        return _holds(conditions[operands], conditions, parameters)
    parts = [_holds(operand, conditions, parameters) for operand in operands]
    return {"Fn::Not": not parts[0], "Fn::And": all(parts), "Fn::Or": any(parts)}[function]


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


def references(value: Any) -> set[str]:
    """Names in Ref, Fn::GetAtt and Fn::Sub: parameters, resources, pseudo parameters."""
    if isinstance(value, list | tuple):
        return {name for item in value for name in references(item)}
    if not isinstance(value, dict):
        return set()
    found = {name for item in value.values() for name in references(item)}
    if "Ref" in value:
        found.add(value["Ref"])
    if "Fn::GetAtt" in value:
        found.add(_attribute(value["Fn::GetAtt"])[0])
    if "Fn::Sub" in value:
        found.update(name.partition(".")[0] for name in re.findall(r"\$\{([^!}]+)\}", _sub(value["Fn::Sub"])))
    return found


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


def _attribute(value: Any) -> tuple[str, str]:
    name, attribute = value if isinstance(value, list) else value.split(".", 1)
    return name, attribute


def _sub(value: Any) -> str:
    return value[0] if isinstance(value, list) else str(value)
