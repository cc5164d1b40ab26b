"""The JSON Schema of `pipelines.yaml`, for editors."""

from typing import Any

from blizzard.config.model import Config

_VARIABLE = {"type": "string", "pattern": r"\$\{"}
"""Text with a variable in it may stand wherever a value is not free text anyway."""
_ABOUT = ("title", "description", "default", "examples")


def json_schema() -> dict[str, Any]:
    schema = _with_variables(Config.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Blizzard pipelines"}


def _with_variables(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_variables(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if _restricted(schema):
        about = {key: value for key, value in schema.items() if key in _ABOUT}
        rule = {key: value for key, value in schema.items() if key not in _ABOUT}
        return {**about, "anyOf": [rule, _VARIABLE]}
    closed = {"additionalProperties": False} if "patternProperties" in schema else {}
    return {**{key: value if key in _ABOUT else _with_variables(value) for key, value in schema.items()}, **closed}


def _restricted(schema: dict[str, Any]) -> bool:
    """Whether this describes one value, and not any text."""
    return isinstance(schema.get("enum"), list) or schema.get("type") in ("integer", "number", ["integer", "string"])
