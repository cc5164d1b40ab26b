"""A bucket with files of every format at once, ingested by the deployed stack."""

import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.load import load_config
from blizzard.environment import variables
from infra.local.stack.local_stack import LocalStack, local_stack
from tests.e2e.stack_world import FAST_PARAMETERS, SCHEDULES_OFF, TIMEOUT_SECS
from tests.unit.test_examples import ROWS

ROOT = Path(__file__).parents[2]
EXAMPLES = {name: ROOT / "examples" / f"local-{name}.yaml" for name in ROWS if name != "ndjson"}


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


def rows_by_source(stack: LocalStack) -> Counter[str]:
    options = {**stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
    if not DeltaTable.is_deltatable("s3://lake/all", options):
        return Counter()
    rows = DeltaTable("s3://lake/all", storage_options=options).to_pyarrow_table(columns=["_source"]).to_pylist()
    return Counter(row["_source"]["source"].partition(":")[2] for row in rows)


@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_a_bucket_with_all_formats_is_ingested(tmp_path: Path) -> None:
    config = tmp_path / "pipelines.yaml"
    config.write_text(sources_of_the_examples())
    formats = {name for _, source in load_config(config, variables()).sources() for name in source.formats}
    assert formats == {*FILE_FORMATS} - {"mixed"}
    parameters = {**FAST_PARAMETERS, **SCHEDULES_OFF, "LandingPrefix": "formats/"}
    expected = Counter({name: ROWS[name][0] for name in EXAMPLES})
    with local_stack(config, parameters=parameters, folder=tmp_path / "stack", retry_after_secs=1) as stack:
        for name in EXAMPLES:
            folder = ROOT / "examples" / "data" / "formats" / name
            for file in folder.iterdir():
                key = f"formats/{name}/{file.name}"
                stack.client("s3").put_object(Bucket=stack.landing, Key=key, Body=file.read_bytes())
        deadline = time.monotonic() + TIMEOUT_SECS
        while rows_by_source(stack) != expected and time.monotonic() < deadline:
            time.sleep(1)
        assert rows_by_source(stack) == expected, stack.logs("job")[-3000:]
