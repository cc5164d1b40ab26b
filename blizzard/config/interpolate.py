"""`${VAR}` and `${VAR:-default}` in the texts of a configuration.

Replaced in parsed values, so that no variable can add YAML to the file. `$${` stands for `${`.
"""

import re
from collections.abc import Mapping
from typing import Any

from blizzard.config.problems import Path, Problems

_START = re.compile(r"\$?\$\{")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


class InterpolationError(ValueError):
    """A variable is not set, or the text after `${` is not a variable. The text is not quoted: it may be a password."""


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """A default is used if the variable is unset or empty. It may contain paired braces, but no variable."""
    out, position = "", 0
    while match := _START.search(text, position):
        out += text[position : match.start()]
        position = match.end()
        if match.group() == "$${":
            out += "${"
        else:
            end = _closing(text, position)
            out += _value(text[position:end], environ)
            position = end + 1
    return out + text[position:]


def _closing(text: str, start: int) -> int:
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    raise InterpolationError("`${` is not closed; write ${NAME}, or $${ for the characters ${")


def _value(inside: str, environ: Mapping[str, str]) -> str:
    match = _INSIDE.fullmatch(inside)
    if match is None or "${" in inside:
        raise InterpolationError(
            "found something else between `${` and `}`; expected ${NAME} or ${NAME:-default}, "
            "the name of letters, digits and _, the default without a variable in it"
        )
    name, has_default, default = match.groups()
    if has_default:
        return environ.get(name) or str(default)
    if name not in environ:
        raise InterpolationError(f"variable {name} is not set; set it, or give it a default: ${{{name}:-…}}")
    return environ[name]


def interpolate_all(value: Any, environ: Mapping[str, str], problems: Problems, path: Path = ()) -> Any:
    """A copy with every text interpolated, but no keys. A text that fails is kept, and its problem added."""
    match value:
        case dict():
            return {key: interpolate_all(item, environ, problems, (*path, key)) for key, item in value.items()}
        case list():
            return [interpolate_all(item, environ, problems, (*path, i)) for i, item in enumerate(value)]
        case str():
            try:
                return interpolate(value, environ)
            except InterpolationError as error:
                problems.add(path, str(error))
    return value
