"""The configuration agrees with its documentation and examples."""

import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from blizzard.config.formats import FORMATS
from blizzard.config.json_schema import json_schema
from blizzard.config.load import _PLACEHOLDERS, load_config
from blizzard.config.model import Config, Source
from blizzard.paths.partition import _READERS, PartitionType
from blizzard.paths.pattern import Pattern
from tests.unit.config_files import config

ROOT = Path(__file__).parents[2]


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, typing.Any]]:
    for name, field in model.model_fields.items():
        yield f"{path}{field.alias or name}", field
        for inner in models(field.annotation):
            if not path.startswith("mixed."):  # the options of a rule are those of a source
                deeper = inner in (Source,) or inner.__name__ == "Pipeline"
                yield from fields(inner, "" if deeper else f"{path}{field.alias or name}.")


def models(annotation: typing.Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from models(part)


@pytest.mark.parametrize(
    ("name", "field"), list(fields(Config)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_each_field_has_a_row_in_the_documentation_with_its_default(name: str, field: typing.Any) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    row = re.search(rf"^\| `{re.escape(name)}` \|([^|]*)\|", page, re.MULTILINE)
    assert row, f"docs/configuration.md has no row that begins with | `{name}` |"
    assert field.description
    if isinstance(field.default, int | str):
        gib, mib = 1 << 30, 1 << 20
        texts = {gib: "1GiB", 16 * mib: "16MiB", 64 * gib: "64GiB", 128 * mib: "128MiB", 256 * mib: "256MiB"}
        sizes: dict[object, str] = dict(texts)
        assert f"`{sizes.get(field.default, field.default)}`" in row[1]
    if field.is_required():
        assert "required" in row[1]


def test_every_yaml_block_of_the_documentation_is_valid() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    blocks = re.findall(r"^```yaml\n(pipelines:.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert config(block).pipelines


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_each_example_is_valid_with_an_empty_environment(file: Path) -> None:
    assert list(load_config(file, {}).sources())


def test_the_pattern_of_the_local_example_matches_its_files() -> None:
    _, readings = next(load_config(ROOT / "examples" / "local-ndjson.yaml", {}).sources())
    folder = Path(readings.uri.removeprefix("file://"))
    paths = [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
    assert len(paths) == 3
    assert all(Pattern(readings.pattern).matches(path) for path in paths)


def test_each_required_field_has_a_placeholder_for_finding_more_problems() -> None:
    required = {name.rpartition(".")[2] for name, field in fields(Config) if field.is_required()}
    assert required == set(_PLACEHOLDERS)


def test_each_type_of_a_partition_column_can_be_read() -> None:
    assert set(typing.get_args(PartitionType)) == set(_READERS)


def test_the_configuration_is_imported_without_what_only_the_command_line_needs() -> None:
    code = "import sys, blizzard.config; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={})
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"typer", "rich", "sqlglot", "ruamel", "boto3", "botocore", "pyspark", "pyarrow", "obstore"}


def test_every_format_is_in_the_json_schema_and_in_the_documentation() -> None:
    described = json_schema()["$defs"]["Source"]["properties"]["format"]
    assert described["anyOf"][0]["enum"] == list(FORMATS)
    row = re.search(r"^\| `format` \|.*$", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE)
    assert row
    assert [name for name in FORMATS if f"`{name}`:" not in row[0]] == []
