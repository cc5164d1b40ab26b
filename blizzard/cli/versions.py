"""`blizzard --version`: the versions of all that takes part in a run. Imports none of it."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.java import Java, find_java
from blizzard.setup.places import SETUP_COMMAND, find_jars

PACKAGES = ("deltalake", "pyarrow", "pyspark", "delta-spark", "obstore")


def show(*, as_json: bool) -> None:
    found = versions()
    typer.echo(json.dumps(found, indent=2) if as_json else "\n".join(_lines(found)))


def versions() -> dict[str, Any]:
    """By name; None for what is not installed."""
    folder = find_jars(variables())
    problem = problem_of(folder)
    return {
        "blizzard": _version("blizzard"),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "java": _java(),
        "jars": {"folder": str(folder), "problem": problem and f"found {problem}; run `{SETUP_COMMAND}`"},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> dict[str, Any]:
    try:
        java: Java = find_java()
    except SetupError as error:
        return {"version": None, "home": None, "problem": str(error)}
    return {"version": java.major, "home": str(java.home), "problem": None}


def _lines(found: dict[str, Any]) -> list[str]:
    java, jars = found["java"], found["jars"]
    shown = {**found, "java": java["problem"] or f"{java['version']} in {java['home']}"}
    shown["jars"] = jars["problem"] or jars["folder"]
    return [f"{name:11}  {value or 'not installed'}" for name, value in shown.items()]
