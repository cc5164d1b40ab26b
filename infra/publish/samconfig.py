"""samconfig.toml: sets parameters of the template in it, and changes nothing else of the file."""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from infra.publish.errors import PublishError

NEW_FILE = "version = 0.1\n"
KEY = "parameter_overrides"


def with_parameters(text: str, parameters: Mapping[str, str], environment: str = "default") -> str:
    """The file's text with these parameters for `sam deploy`. Empty text makes a new file.

    Raises PublishError when the file cannot be parsed, or when anything else in it would change.
    """
    try:
        before = tomllib.loads(text)
        document = tomlkit.parse(text or NEW_FILE)
        table = _deploy_table(document, environment)
        merged = _merge(table.get(KEY, ""), parameters)
        table[KEY] = merged
        changed = tomlkit.dumps(document)
        after = tomllib.loads(changed)
        # tomlkit has written wrong files for unusual layouts before (python-poetry/tomlkit#545, #588).
        unharmed = _other_values(after, environment) == _other_values(before, environment)
        if unharmed and after[environment]["deploy"]["parameters"][KEY] == merged:
            return changed
    except (TOMLKitError, AttributeError, TypeError, ValueError, KeyError) as error:
        raise _unsafe(parameters, environment, str(error)) from error
    raise _unsafe(parameters, environment, "its layout is not supported")


def overrides(parameters: Mapping[str, str]) -> str:
    """As `sam deploy --parameter-overrides` takes them."""
    return " ".join(f"{name}={_quoted(value)}" for name, value in parameters.items())


def _quoted(value: str) -> str:
    """In quotes, as TOML, JSON and SAM understand it."""
    return json.dumps(value, ensure_ascii=False)


def _deploy_table(document: tomlkit.TOMLDocument, environment: str) -> MutableMapping[str, Any]:
    """[environment.deploy.parameters], created if it is missing."""
    table: MutableMapping[str, Any] = document
    for name in (environment, "deploy"):
        table = table.setdefault(name, tomlkit.table(is_super_table=True))
    found: MutableMapping[str, Any] = table.setdefault("parameters", tomlkit.table())
    return found


def _other_values(document: dict[str, Any], environment: str) -> dict[tuple[str, ...], Any]:
    """Every value but the overrides and the version, by its path. Empty tables do not count."""
    flat: dict[tuple[str, ...], Any] = {}

    def visit(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(item, (*path, key))
        elif path not in ((environment, "deploy", "parameters", KEY), ("version",)):
            flat[path] = value

    visit(document, ())
    return flat


def _merge(existing: str | list[str], parameters: Mapping[str, str]) -> str:
    """`parameters` win over the existing ones. SAM writes those as `K=V` or as `ParameterKey=K,ParameterValue=V`."""
    texts = [existing] if isinstance(existing, str) else existing
    items = [item for text in texts for item in shlex.split(text)]
    pairs = (re.sub(r"^ParameterKey=([^,]+),ParameterValue=", r"\1=", item).partition("=") for item in items)
    return overrides({**{name: value for name, _, value in pairs}, **parameters})


def _unsafe(parameters: Mapping[str, str], environment: str, why: str) -> PublishError:
    return PublishError(
        f"samconfig.toml cannot be changed safely ({why}). Put this into its [{environment}.deploy.parameters] "
        f"yourself:\n{KEY} = {_quoted(overrides(parameters))}"
    )
