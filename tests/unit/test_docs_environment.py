"""Every environment variable, make target and package is documented."""

import re
import tomllib

from tests.unit.documents import (
    DEPLOYED,
    ROOT,
    calls,
    everything,
    fences,
    first_texts,
    name_of,
    python_files,
    section,
    text,
    words,
)


def variables_read() -> set[str]:
    """Names that the Python code looks up, which all are in capitals, and those that make, set-up and examples take."""
    lookups = [call for call in calls(*DEPLOYED, "infra/setup") if name_of(call) == "get"]
    looked_up = {name for call in lookups for name in first_texts(call)}
    in_python = {name for name in looked_up if re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", name)}
    asked_for = {
        name
        for path in python_files(*DEPLOYED)
        for name in re.findall(r'"([A-Z_]+)" (?:not )?in variables', path.read_text())
    }
    in_make = set(re.findall(r"\$\((PY[A-Z]+)\)", text("Makefile")))
    in_shell = set(re.findall(r"\$\{([A-Z_]+):", text("infra/setup/run")))
    examples = "\n".join(path.read_text() for path in (ROOT / "examples").glob("*.yaml"))
    return in_python | asked_for | in_make | in_shell | set(re.findall(r"\$\{(\w+)", examples))


def test_every_environment_variable_that_is_read_is_documented() -> None:
    found = variables_read()
    known = {"BLIZZARD_CONFIG", "AWS_ENDPOINT_URL", "PYSPARK_PYTHON", "JAVA_HOME", "PYTEST", "PYTHON", "BLIZZARD_LAKE"}
    assert known <= found
    assert found <= words(section("docs/cli.md", "## Environment"))


def test_every_make_target_is_documented_and_every_documented_one_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text("Makefile"), re.MULTILINE)) - {"help"}
    in_code = [*(fence.body for fence in fences("console", "")), *words(everything())]
    named = {name for code in in_code for name in re.findall(r"^(?:\$ )?make ([a-z][a-z-]*)", code, re.MULTILINE)}
    assert named == targets


def test_the_documented_output_of_make_is_its_output() -> None:
    (shown,) = [fence.body.removeprefix("$ make\n") for fence in fences("console") if fence.body.startswith("$ make\n")]
    assert shown.splitlines() == re.findall(r'^\t@echo "(.*)"$', text("Makefile"), re.MULTILINE)


def test_every_package_has_its_reason_in_the_decisions() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    needed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in needed}
    why = section("docs/decisions.md", "## 2026-11-21: What the project depends on")
    assert {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", why)} == set()
