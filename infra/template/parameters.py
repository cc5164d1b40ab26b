"""Checks a stack's parameters as CloudFormation does before it creates anything."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from infra.template.conditions import is_true
from infra.template.translate import Template


def parameter_problems(template: Template, given: Mapping[str, str]) -> list[str]:
    """Problems with names and values; if there are none, the assertions of the template's Rules that fail."""
    known = template.get("Parameters", {})
    problems = [f"{name}: the template has no such parameter" for name in given.keys() - known.keys()]
    for name, parameter in known.items():
        value = given.get(name, parameter.get("Default"))
        if value is None:
            problems.append(f"{name}: expected a value, found none")
        elif not _fits(parameter, str(value)):
            problems.append(
                f"{name}: {parameter.get('ConstraintDescription') or _expected(parameter)}, found {value!r}"
            )
    return sorted(problems) or list(_failed_assertions(template, _with_defaults(template, given)))


def _with_defaults(template: Template, given: Mapping[str, str]) -> Mapping[str, str]:
    defaults = {name: p["Default"] for name, p in template.get("Parameters", {}).items() if "Default" in p}
    return {name: str(value) for name, value in {**defaults, **given}.items()}


def _fits(parameter: Mapping[str, Any], value: str) -> bool:
    if "AllowedValues" in parameter and value not in [str(choice) for choice in parameter["AllowedValues"]]:
        return False
    if parameter["Type"] == "Number":
        number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value)
        return number is not None and (
            float(parameter.get("MinValue", "-inf")) <= float(value) <= float(parameter.get("MaxValue", "inf"))
        )
    length_fits = parameter.get("MinLength", 0) <= len(value) <= parameter.get("MaxLength", 4096)
    return length_fits and re.fullmatch(parameter.get("AllowedPattern", ".*"), value, re.DOTALL) is not None


def _expected(parameter: Mapping[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return f"expected one of {', '.join(map(str, parameter['AllowedValues']))}"
    return f"expected {parameter['Type']} from {parameter.get('MinValue')} to {parameter.get('MaxValue')}"


def _failed_assertions(template: Template, parameters: Mapping[str, str]) -> Iterator[str]:
    for name, rule in template.get("Rules", {}).items():
        if "RuleCondition" in rule and not is_true(rule["RuleCondition"], parameters):
            continue
        for assertion in rule["Assertions"]:
            if not is_true(assertion["Assert"], parameters):
                yield f"{name}: {assertion['AssertDescription']}"
