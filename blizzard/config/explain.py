"""Turns pydantic's validation errors into texts for the author of the file."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import ErrorDetails

from blizzard.config.field_types import has_key, is_secret, keys_of, section_at
from blizzard.config.problems import Path, did_you_mean

_KINDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text (put it in quotes)",
    "list": "a list, such as [date]",
    "dict": "a mapping of names to values",
    "model": "a mapping of settings",
}
_BOUNDS: Mapping[str, str] = {"greater_than_equal": "ge", "greater_than": "gt"}

_SIZES: Mapping[str, tuple[str, str, str]] = {
    "string_too_short": ("text of at least", "character", "min_length"),
    "too_short": ("a list of at least", "item", "min_length"),
    "too_long": ("a list of at most", "item", "max_length"),
}


def path_of(fault: ErrorDetails) -> Path:
    return tuple(part for part in fault["loc"] if part != "[key]")


def explain(fault: ErrorDetails) -> str:
    """What was found, what was expected, and what to do next."""
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(path_of(fault))
    if kind == "missing":
        return f"is missing; add it: {_description(path_of(fault))}"
    if kind == "value_error":
        return str(context["error"])
    shown = _kind_of if is_secret(path_of(fault)) else _shown
    return f"found {shown(fault['input'])}, expected {_expected(kind, context) or fault['msg']}; change it"


def _expected(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind == "literal_error":
        return f"one of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return "a name of letters, digits, _ and -, which begins with a letter or digit and has at most 63 of them"
    if kind in _BOUNDS:
        bound = context[_BOUNDS[kind]]
        return f"{bound:g} or more" if kind == "greater_than_equal" else f"more than {bound:g}"
    if kind in _SIZES:
        what, unit, bound = _SIZES[kind]
        return f"{what} {context[bound]} {unit}{'' if context[bound] == 1 else 's'}"
    return _KINDS.get(kind.partition("_")[0])


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list" if value else "an empty list"
        case bool():
            return str(value).lower()
    return f"{value!r:.80}"


def _kind_of(value: object) -> str:
    """Of what is not shown, since it may be a password."""
    match value:
        case str():
            return "text, which is not shown since it may be a secret"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
    return _shown(value)


def _unknown_key(path: Path) -> str:
    section = section_at(path[:-1])
    key, known = str(path[-1]), keys_of(section)
    home = next((name for name, field in known.items() if has_key(field, key)), None)
    if home is not None:
        return f"unknown key here; it belongs in `{home}`: move it there"
    hint = did_you_mean(key, known)
    return f"unknown key; {hint}expected one of {', '.join(known)}; correct it or leave it out"


def _description(path: Path) -> str:
    section = section_at(path[:-1])
    fields = {field.alias or name: field for name, field in section.model_fields.items()} if section else {}
    field = fields.get(str(path[-1]))
    return str(field.description) if field else str(path[-1])
