"""Evaluates the condition functions that the template uses."""

from collections.abc import Mapping
from typing import Any


def is_true(condition: Any, parameters: Mapping[str, Any], conditions: Mapping[str, Any] | None = None) -> bool:
    """Whether a condition holds with these parameters. `conditions`: those that it may refer to, by name."""
    ((function, operands),) = condition.items()
    if function == "Fn::Equals":
        return _value(operands[0], parameters) == _value(operands[1], parameters)
    if function == "Fn::Contains":
        return _value(operands[1], parameters) in [_value(item, parameters) for item in operands[0]]
    if function == "Condition":
        return is_true((conditions or {})[operands], parameters, conditions)
    parts = [is_true(operand, parameters, conditions) for operand in operands]
    return {"Fn::Not": not parts[0], "Fn::And": all(parts), "Fn::Or": any(parts)}[function]


def _value(operand: Any, parameters: Mapping[str, Any]) -> str:
    return str(parameters[operand["Ref"]] if isinstance(operand, dict) else operand)
