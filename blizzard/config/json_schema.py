"""The JSON Schema of `pipelines.yaml`, for editors."""

from typing import Any

from blizzard.config.model import Config

_VARIABLE = {"type": "string", "pattern": r"\$\{"}
"""A text with a variable is valid wherever a value is not free text already."""
_ANNOTATIONS = ("title", "description", "default", "examples")


def json_schema() -> dict[str, Any]:
    schema = _with_variables(Config.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Blizzard pipelines"}


def _with_variables(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_variables(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if _restricted(schema):
        annotations = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
        rule = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        return {**annotations, "anyOf": [rule, _VARIABLE]}
    closed = {"additionalProperties": False} if "patternProperties" in schema else {}
    return {
        **{key: value if key in _ANNOTATIONS else _with_variables(value) for key, value in schema.items()},
        **closed,
    }


def _restricted(schema: dict[str, Any]) -> bool:
    """Whether this describes a value that is not free text."""
    return isinstance(schema.get("enum"), list) or schema.get("type") in ("integer", "number", ["integer", "string"])
