"""Turns pydantic's validation errors into texts for the author of the file."""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from blizzard.config.model import Config
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
    return f"found {_shown(fault['input'])}, expected {_expected(kind, context) or fault['msg']}; change it"


def _expected(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind == "literal_error":
        return f"one of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return "a name of letters, digits, _ and -, which begins with a letter or digit and has at most 63 of them"
    if kind in _BOUNDS:
        bound = context[_BOUNDS[kind]]
        return f"{bound:g} or more" if kind == "greater_than_equal" else f"more than {bound:g}"
    return _KINDS.get(kind.partition("_")[0])


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
    return f"{value!r:.80}"


def _unknown_key(path: Path) -> str:
    section = _section(path[:-1])
    key, known = str(path[-1]), _keys(section)
    home = next((name for name, field in known.items() if key in _keys(_model_in(field))), None)
    if home is not None:
        return f"unknown key here; it belongs in `{home}`: move it there"
    hint = did_you_mean(key, known)
    return f"unknown key; {hint}expected one of {', '.join(known)}; correct it or leave it out"


def _description(path: Path) -> str:
    section = _section(path[:-1])
    fields = {field.alias or name: field for name, field in section.model_fields.items()} if section else {}
    field = fields.get(str(path[-1]))
    return str(field.description) if field else str(path[-1])


def _section(path: Path) -> type[BaseModel] | None:
    """The model of the mapping at this path; None when there is no model for it."""
    kind: Any = Config
    for part in path:
        if isinstance(part, int):
            kind = _model_in(kind)
            continue
        inner = _model_in(kind)
        kind = _keys(inner).get(str(part)) if get_origin(kind) is not dict else get_args(kind)[1]
    return _model_in(kind)


def _keys(section: type[BaseModel] | None) -> dict[str, Any]:
    """Keys as written in the file, each with the type of its value."""
    fields = section.model_fields.items() if section else ()
    return {field.alias or name: field.annotation for name, field in fields}


def _of_list(kind: Any) -> tuple[Any, ...]:
    """The type of the items; empty if it is no list."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) is list else ()


def _model_in(kind: Any) -> type[BaseModel] | None:
    """The model in `Model` or `Model | None`."""
    options = (kind, *get_args(kind)) if get_origin(kind) is not dict else ()
    options = tuple(chain.from_iterable((option, *_of_list(option)) for option in options))
    return next((option for option in options if isinstance(option, type) and issubclass(option, BaseModel)), None)
