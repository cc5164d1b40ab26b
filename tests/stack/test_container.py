"""The container image: its Dockerfile is linted, and agrees with the project."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from blizzard.setup.java import ACCEPTED
from infra.package.contents import CONTAINER_PYTHON, container_requirements
from infra.tools.environments import Tools

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """Each with its words, continued lines joined."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    return [(first, rest) for first, _, rest in (line.partition(" ") for line in lines if line)]


def of(name: str) -> list[str]:
    return [words for instruction, words in instructions() if instruction == name]


BROKEN = {
    "CKV_DOCKER_3": ("USER blizzard\n", ""),
    "CKV_DOCKER_8": ("USER blizzard\n", "USER root\n"),
    "CKV_DOCKER_7": (":3.13-slim-bookworm\n#", ":latest\n#"),
    "CKV_DOCKER_10": ("WORKDIR /data", "WORKDIR data"),
    "CKV_DOCKER_2": ("# checkov:skip=CKV_DOCKER_2", "# CKV_DOCKER_2"),
}
"""What checkov must find, and a change that brings it about."""


def test_checkov_finds_nothing_and_would_find_what_is_broken(tmp_path: Path) -> None:
    variants = {"": DOCKERFILE, **{check: DOCKERFILE.replace(*change) for check, change in BROKEN.items()}}
    assert len({*variants.values()}) == len(variants), "each change changes something"
    for check, content in variants.items():
        (tmp_path / f"as-{check}").mkdir()
        (tmp_path / f"as-{check}" / "Dockerfile").write_text(content)
    command = [
        Tools(ROOT).program("checkov"),
        "--framework",
        "dockerfile",
        "--skip-download",
        "--compact",
        "-o",
        "json",
    ]
    done = subprocess.run([*command, "-d", str(tmp_path)], capture_output=True, text=True, check=False)
    failed = json.loads(done.stdout)["results"]["failed_checks"]
    found = {(one["file_path"].split("/")[-2], one["check_id"]) for one in failed}
    assert found == {(f"as-{check}", check) for check in BROKEN}


def test_every_base_image_is_pinned_to_a_python_that_the_project_supports() -> None:
    bases = [words.split()[0] for words in of("FROM")]
    assert {*bases} == {f"docker.io/library/python:{CONTAINER_PYTHON}-slim-bookworm"}, "one venv for both stages"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert CONTAINER_PYTHON in SpecifierSet(project["requires-python"])


def test_packages_are_installed_only_with_hashes_or_from_the_wheel() -> None:
    commands = [step for words in of("RUN") for step in words.split(" && ") if "pip install" in step]
    assert len(commands) == 3
    assert all("--require-hashes" in step or "--no-index --no-deps blizzard-*.whl" in step for step in commands)


def test_the_locked_packages_are_those_of_the_wheel() -> None:
    shown = (ROOT / "infra" / "container" / "requirements.txt").read_text()
    assert shown == container_requirements((ROOT / "requirements.lock").read_text())
    names = {*re.findall(r"^([\w-]+)==", shown, re.MULTILINE)}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    in_kafka = {re.split(r"[<>=]", requirement)[0] for requirement in extras["kafka"]}
    assert {"setuptools", "pyspark", "deltalake"} | in_kafka <= names
    assert not {"pytest", "moto", "hatchling"} & names


def test_java_is_one_that_spark_supports() -> None:
    (major,) = re.findall(r"openjdk-(\d+)-jre-headless", DOCKERFILE)
    assert int(major) in ACCEPTED


def test_what_is_copied_is_not_ignored() -> None:
    copied = {words.split()[0] for words in of("COPY") if not words.startswith("--from")}
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignore
    kept = {line[1:] for line in ignore if line.startswith("!")}
    assert copied == {"infra/container/requirements.txt", "dist/blizzard-*-py3-none-any.whl"}
    assert kept == {"infra/container/requirements.txt", "dist/*.whl"}


@pytest.mark.parametrize("instruction", ["ADD", "HEALTHCHECK", "EXPOSE"])
def test_it_has_no(instruction: str) -> None:
    assert of(instruction) == []


def test_the_user_is_not_root_and_owns_nothing_of_the_installation() -> None:
    assert of("USER") == ["blizzard"]
    assert not [words for words in of("COPY") if "--chown" in words]
    assert instructions().index(("USER", "blizzard")) > max(
        number for number, (name, _) in enumerate(instructions()) if name in ("RUN", "COPY")
    )
