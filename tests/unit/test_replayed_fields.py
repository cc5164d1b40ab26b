"""Of a file of which some records are replayed, the fields of the others change nothing: neither the columns of the
table nor the counts of the receipt."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld

Record = Mapping[str, str | None]
RECORDS: Sequence[Record] = (
    {"id": "a", "amount": "1", "other": "x"},
    {"id": None, "amount": "2", "other": None, "more": "y"},
    {"id": "c", "amount": "3", "other": "x"},
    {"id": None, "amount": "4"},
)
"""The second and the fourth are refused at first. Of the refused ones one has a field that no column is for."""
NAMES = ("id", "amount", "other", "more")


def as_lines(records: Sequence[Record]) -> bytes:
    return b"".join(json.dumps({k: v for k, v in each.items() if v is not None}).encode() + b"\n" for each in records)


def as_json(records: Sequence[Record]) -> bytes:
    return b"[" + b",".join(as_lines(records).splitlines()) + b"]"


def as_csv(records: Sequence[Record]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def as_parquet(records: Sequence[Record]) -> bytes:
    data = io.BytesIO()
    schema = pa.schema([(name, pa.string()) for name in NAMES])
    rows = [{**each, "amount": each["amount"]} for each in records]
    pq.write_table(pa.Table.from_pylist(rows, schema), data)
    return data.getvalue()


def as_zip(records: Sequence[Record]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for number in (0, 2):
            archive.writestr(f"{number}.ndjson", as_lines(records[number : number + 2]))
    return data.getvalue()


FORMATS: Mapping[str, tuple[str, Callable[[Sequence[Record]], bytes], dict[str, Any]]] = {
    "ndjson": ("f.ndjson.gz", lambda records: gzip.compress(as_lines(records), mtime=0), {"format": "ndjson"}),
    "json": ("f.json", as_json, {"format": "json"}),
    "csv": ("f.csv", as_csv, {"format": "csv", "csv": {"header": True}}),
    "parquet": ("f.parquet", as_parquet, {"format": "parquet"}),
    "zip": ("f.zip", as_zip, {"format": "ndjson"}),
    "mixed": (
        "f.ndjson",
        as_lines,
        {"format": "mixed", "mixed": [{"pattern": "*.csv", "format": "csv"}, {"pattern": "*", "format": "ndjson"}]},
    ),
}
STRICT, LOOSE = "id STRING NOT NULL, amount STRING", "id STRING, amount STRING"


@pytest.fixture(params=FORMATS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> OperatorWorld:
    path, write, settings = FORMATS[request.param]
    made = OperatorWorld(tmp_path, {"pattern": "*", "schema": STRICT, **settings})
    made.land_bytes(path, write(RECORDS))
    made.run()
    assert numbers(made) == [0, 2]
    return made


def numbers(world: OperatorWorld) -> list[int]:
    return sorted(row["_source"]["row"] for row in world.table().to_pyarrow_table().to_pylist())


def fields_of_newest_receipt(world: OperatorWorld) -> dict[str, tuple[int, int]]:
    """By name, in how many records, and the number of the first."""
    newest = max((world.state / "receipts").iterdir(), key=lambda file: file.name)
    fields = json.loads(gzip.decompress(newest.read_bytes()))["unknown_fields"]["fields"]
    return {field["name"]: (field["records"], field["record"]) for field in fields}


def test_only_fields_of_the_wanted_records_become_columns(world: OperatorWorld) -> None:
    world.settings |= {"schema": LOOSE, "new_fields": "add"}
    assert main(["replay", str(world.config_file)]) == 0
    assert numbers(world) == [0, 1, 2, 3]
    rows = {row["_source"]["row"]: row for row in world.table().to_pyarrow_table().to_pylist()}
    assert {*rows[1]} == {"id", "amount", "more", "_rescued", "_source"}
    assert [rows[number]["more"] for number in range(4)] == [None, "y", None, None]
    assert fields_of_newest_receipt(world) == {}


def test_only_fields_of_the_wanted_records_are_counted(world: OperatorWorld) -> None:
    world.settings["schema"] = LOOSE
    assert main(["replay", str(world.config_file)]) == 0
    assert numbers(world) == [0, 1, 2, 3]
    found = fields_of_newest_receipt(world)
    if world.settings["format"] in ("csv", "parquet"):  # all of its records have all of its columns
        assert found == {"other": (2, 1), "more": (2, 1)}
    else:
        assert found == {"more": (1, 1)}
