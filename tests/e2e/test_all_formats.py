"""A bucket with files of every format at once, ingested by the deployed stack."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.load import load_config
from blizzard.environment import variables
from infra.local.stack.local_stack import LocalStack, local_stack
from tests.e2e.stack_world import FAST_PARAMETERS, SCHEDULES_OFF, TIMEOUT_SECS
from tests.unit.example_rows import LETTERS, ROWS, Row, plain

ROOT = Path(__file__).parents[2]
EXAMPLES = {name: ROOT / "examples" / f"local-{name}.yaml" for name in ROWS}


def sources_of_the_examples() -> str:
    """Of one pipeline: the sources of the examples, on S3. Their tables become one, in which each has its columns."""
    lines = ["pipelines:", "  all:", "    table_uri: s3://lake/all", "    sources:"]
    for name, file in EXAMPLES.items():
        text = file.read_text()
        source = text[text.index("      files:") :].replace("uri: data/formats/", "uri: s3://landing/formats/")
        # Two examples have a column of the same name with another type.
        source = source.replace("      files:", f"      {name}:").replace('"id INT NOT NULL', '"id BIGINT NOT NULL')
        lines.append(source.rstrip())
    return "\n".join(lines) + "\n"


def rows_by_source(stack: LocalStack) -> dict[str, list[Row]]:
    """In the order of files and records; a column that has no value for the row is left out."""
    options = {**stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
    if not DeltaTable.is_deltatable("s3://lake/all", options):
        return {}
    found: dict[str, list[Row]] = {}
    for row in DeltaTable("s3://lake/all", storage_options=options).to_pyarrow_table().to_pylist():
        found.setdefault(row["_source"]["source"].partition(":")[2], []).append(with_values(plain(row)))
    return {source: sorted(rows, key=lambda row: row[:2]) for source, rows in found.items()}


def with_values(row: Row) -> Row:
    file, number, columns = row
    return file, number, {name: value for name, value in columns.items() if value is not None}


def letters_by_source(stack: LocalStack) -> dict[str, list[tuple[str, int]]]:
    s3, found = stack.client("s3"), dict[str, list[tuple[str, int]]]()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="all/_blizzard/"):
        for key in (info["Key"] for info in page.get("Contents", ()) if "/dead_letters/" in info["Key"]):
            for line in s3.get_object(Bucket="lake", Key=key)["Body"].read().splitlines():
                letter = json.loads(line)
                found.setdefault(letter["source"].partition(":")[2], []).append((letter["path"], letter["row"]))
    return found


def count(rows: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    return {source: len(some) for source, some in rows.items()}


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_a_bucket_with_all_formats_is_ingested(tmp_path: Path) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(sources_of_the_examples())
    formats = {name for _, source in load_config(config, variables()).sources() for name in source.formats}
    assert formats == {*FILE_FORMATS} - {"mixed"}
    parameters = {**FAST_PARAMETERS, **SCHEDULES_OFF, "LandingPrefix": "formats/"}
    expected = {name: [with_values(row) for row in ROWS[name]] for name in EXAMPLES}
    with local_stack(config, parameters=parameters, folder=tmp_path / "stack", retry_after_secs=1) as stack:
        for name in EXAMPLES:
            folder = ROOT / "examples" / "data" / "formats" / name
            for file in folder.iterdir():
                key = f"formats/{name}/{file.name}"
                stack.client("s3").put_object(Bucket=stack.landing, Key=key, Body=file.read_bytes())
        deadline = time.monotonic() + TIMEOUT_SECS
        while count(rows_by_source(stack)) != count(expected) and time.monotonic() < deadline:
            time.sleep(1)
        assert rows_by_source(stack) == expected, stack.logs("job")[-3000:]
        assert letters_by_source(stack) == LETTERS
