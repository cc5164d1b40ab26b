"""samconfig.toml: lays parameters of the template over those that are in it, and leaves all else as it is."""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

from infra.publish.errors import PublishError

NEW = "version = 0.1\n"
KEY = "parameter_overrides"


def with_parameters(text: str, parameters: Mapping[str, str], environment: str = "default") -> str:
    """The file's text with these parameters for `sam deploy`. Empty text makes a new file.

    Raises PublishError when the file has a form that cannot be changed safely.
    """
    try:
        before = tomllib.loads(text)
        merged = _merged(_deploy(before, environment).get(KEY, ""), parameters)
        changed = _replaced(text or NEW, environment, merged)
        after = tomllib.loads(changed)
        if _deploy(after, environment)[KEY] == merged and _rest(after, environment) == _rest(before, environment):
            return changed
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError, KeyError) as error:
        raise _unsafe(parameters, environment, str(error)) from error
    raise _unsafe(parameters, environment, "its form is unusual")


def overrides(parameters: Mapping[str, str]) -> str:
    """As `sam deploy --parameter-overrides` takes them."""
    return " ".join(f"{name}={_text(value)}" for name, value in parameters.items())


def _text(value: str) -> str:
    """In quotes, as TOML, JSON and SAM understand it."""
    return json.dumps(value, ensure_ascii=False)


def _deploy(document: Mapping[str, Any], environment: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get(environment, {}).get("deploy", {}).get("parameters", {})
    return found


def _rest(document: dict[str, Any], environment: str) -> dict[str, Any]:
    """All but what is changed here, and tables that hold nothing."""
    flat: dict[str, Any] = {}

    def visit(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(item, (*path, key))
        elif path not in ((environment, "deploy", "parameters", KEY), ("version",)):
            flat["\0".join(path)] = value

    visit(document, ())
    return flat


def _merged(known: str | list[str], parameters: Mapping[str, str]) -> str:
    """Ours over the user's; both forms that SAM takes are understood, `K=V` and `ParameterKey=K,ParameterValue=V`."""
    items = shlex.split(known) if isinstance(known, str) else [part for item in known for part in shlex.split(item)]
    pairs = (re.sub(r"^ParameterKey=([^,]+),ParameterValue=", r"\1=", item).partition("=") for item in items)
    theirs = {name: value for name, _, value in pairs}
    return overrides({**theirs, **parameters})


def _replaced(text: str, environment: str, merged: str) -> str:
    line = f"{KEY} = {_text(merged)}\n"
    header = re.search(
        rf"^[ \t]*\[[ \t]*{re.escape(environment)}\.deploy\.parameters[ \t]*\].*$\n?", text, re.MULTILINE
    )
    if header is None:
        return f"{text.rstrip()}\n\n[{environment}.deploy.parameters]\n{line}"
    before, table = text[: header.end()], text[header.end() :]
    next_header = re.search(r"^[ \t]*\[[A-Za-z\"'\[]", table, re.MULTILINE)
    body = table[: next_header.start()] if next_header else table
    start = re.search(rf"^[ \t]*{KEY}[ \t]*=", body, re.MULTILINE)
    if start is None:
        return f"{before if before.endswith(chr(10)) else before + chr(10)}{line}{table}"
    return before + table[: start.start()] + line + table[_end_of_value(table, start.start()) :]


def _end_of_value(text: str, start: int) -> int:
    """Behind the line that ends the assignment which begins at `start`."""
    end = start
    while end < len(text):
        end = text.find("\n", end) + 1 or len(text)
        try:
            tomllib.loads(text[start:end])
        except tomllib.TOMLDecodeError:
            continue
        return end
    raise ValueError(f"{KEY} has no end")


def _unsafe(parameters: Mapping[str, str], environment: str, why: str) -> PublishError:
    return PublishError(
        f"samconfig.toml cannot be changed safely ({why}). Put this into its [{environment}.deploy.parameters] "
        f"yourself:\n{KEY} = {_text(overrides(parameters))}"
    )
