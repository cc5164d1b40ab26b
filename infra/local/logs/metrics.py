"""Metrics that CloudWatch extracts from log lines: embedded metric format (EMF), and metric filters on JSON."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Datum = tuple[str, dict[str, Any]]
"""Namespace, and a datum in the form of PutMetricData."""

COMPARISON = re.compile(r"\s*(\$[\w.\[\]-]*)\s*(>=|<=|!=|=|>|<)\s*(\"[^\"]*\"|[^\s&|()]+)\s*")
PRESENCE = re.compile(r"\s*(\$[\w.\[\]-]*)\s+(EXISTS|IS TRUE|IS FALSE|NOT EXISTS)\s*")


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """A deployed filter. Of CloudWatch's pattern language, conditions on JSON fields are supported."""

    log_group: str
    pattern: str
    transformations: tuple[Mapping[str, Any], ...]

    @classmethod
    def from_description(cls, found: Mapping[str, Any]) -> "MetricFilter":
        """From one item of DescribeMetricFilters."""
        return cls(found["logGroupName"], found.get("filterPattern", ""), tuple(found["metricTransformations"]))


def emf_data(line: str) -> Iterator[Datum]:
    """The data of a line in embedded metric format; nothing for any other line."""
    if '"_aws"' not in line:
        return
    record = _json_object(line)
    for directive in (record or {}).get("_aws", {}).get("CloudWatchMetrics", []):
        for names in directive.get("Dimensions", [[]]):
            dimensions = [{"Name": name, "Value": str(record[name])} for name in names]  # type: ignore[index]
            for metric in directive["Metrics"]:
                values = record[metric["Name"]]  # type: ignore[index]
                for value in values if isinstance(values, list) else [values]:
                    yield (
                        directive["Namespace"],
                        {
                            "MetricName": metric["Name"],
                            "Dimensions": dimensions,
                            "Unit": metric.get("Unit", "None"),
                            "Value": float(value),
                        },
                    )


def filter_data(metric_filter: MetricFilter, line: str) -> Iterator[Datum]:
    """The data that a filter extracts from a line."""
    record = _json_object(line)
    if record is None or not matches(metric_filter.pattern, record):
        return
    for transformation in metric_filter.transformations:
        source = str(transformation["metricValue"])
        value = field_of(record, source) if source.startswith("$") else float(source)
        if not isinstance(value, int | float):
            continue
        dimensions = {name: field_of(record, field) for name, field in (transformation.get("dimensions") or {}).items()}
        if any(item is None for item in dimensions.values()):
            continue
        yield (
            transformation["metricNamespace"],
            {
                "MetricName": transformation["metricName"],
                "Dimensions": [{"Name": name, "Value": str(item)} for name, item in dimensions.items()],
                "Unit": transformation.get("unit", "None"),
                "Value": float(value),
            },
        )


def matches(pattern: str, record: Mapping[str, Any]) -> bool:
    """Whether a JSON record satisfies `{ $.a = "x" && ($.b > 1 || $.c EXISTS) }`. Raises ValueError for another kind of
    pattern."""
    text = pattern.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"expected a pattern on JSON fields in braces, found {pattern!r}")
    value, rest = _or_expression(text[1:-1], record)
    if rest.strip():
        raise ValueError(f"{pattern!r}: expected its end, found {rest!r}")
    return value


def field_of(record: Mapping[str, Any], path: str) -> Any:
    value: Any = record
    for name in path.removeprefix("$").strip(".").split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _or_expression(text: str, record: Mapping[str, Any]) -> tuple[bool, str]:
    value, rest = _and_expression(text, record)
    while rest.lstrip().startswith("||"):
        other, rest = _and_expression(rest.lstrip()[2:], record)
        value = value or other
    return value, rest


def _and_expression(text: str, record: Mapping[str, Any]) -> tuple[bool, str]:
    value, rest = _condition(text, record)
    while rest.lstrip().startswith("&&"):
        other, rest = _condition(rest.lstrip()[2:], record)
        value = value and other
    return value, rest


def _condition(text: str, record: Mapping[str, Any]) -> tuple[bool, str]:
    if text.lstrip().startswith("("):
        value, rest = _or_expression(text.lstrip()[1:], record)
        if not rest.lstrip().startswith(")"):
            raise ValueError(f"expected ), found {rest!r}")
        return value, rest.lstrip()[1:]
    if found := PRESENCE.match(text):
        value, what = field_of(record, found[1]), found[2]
        holds = {"EXISTS": value is not None, "NOT EXISTS": value is None, "IS TRUE": value is True}
        return holds.get(what, value is False), text[found.end() :]
    if found := COMPARISON.match(text):
        return _compare(field_of(record, found[1]), found[2], found[3]), text[found.end() :]
    raise ValueError(f'expected a condition such as $.event = "x", found {text!r}')


def _compare(value: Any, operator: str, operand: str) -> bool:
    if value is None:
        return False
    if operand.startswith('"') or not _is_number(operand):
        text = operand.strip('"')
        same = str(value) == text or ("*" in text and re.fullmatch(re.escape(text).replace(r"\*", ".*"), str(value)))
        return bool(same) if operator == "=" else operator == "!=" and not same
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = float(operand)
    return {
        "=": value == number,
        "!=": value != number,
        ">": value > number,
        "<": value < number,
        ">=": value >= number,
        "<=": value <= number,
    }[operator]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json_object(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
