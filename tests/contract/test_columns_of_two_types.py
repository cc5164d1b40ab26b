"""Files of Parquet, ORC and Avro that have a column in two types: whoever chooses its type, all of their records become
rows."""

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from tests.unit.table_files import orc_file, parquet

pytestmark = pytest.mark.usefixtures("signals_as_before")

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = date(2026, 11, 21)
MONEY = pa.decimal128(10, 2)
COLUMNS: Mapping[str, tuple[str, pa.Array, pa.Array]] = {
    "count": ("DOUBLE", pa.array([1, 2]), pa.array([1.5, 2.5])),
    "price": ("DOUBLE", pa.array([1.5, 2.5]), pa.array([Decimal("1.10"), Decimal("2.20")], MONEY)),
    "code": ("STRING", pa.array([7, 8]), pa.array(["a", "b"])),
    "is_on": ("STRING", pa.array([True, False]), pa.array([1, 2])),
    "at": ("TIMESTAMP", pa.array([DAY, DAY]), pa.array([NOON, NOON], pa.timestamp("us", "UTC"))),
    "tags": ("STRING", pa.array([["x"], []]), pa.array(["y", "z"])),
}
"""The type that both files' columns join to."""
ROWS: Mapping[str, Sequence[Any]] = {
    "count": [1.0, 2.0, 1.5, 2.5],
    "price": [1.5, 2.5, 1.1, 2.2],
    "code": ["7", "8", "a", "b"],
    "is_on": ["true", "false", "1", "2"],
    "at": [datetime(2026, 11, 21, tzinfo=UTC)] * 2 + [NOON] * 2,
    "tags": ['["x"]', "[]", "y", "z"],
}


def avro_file(table: pa.Table) -> bytes:
    body, fields = io.BytesIO(), [{"name": field.name, "type": avro_type(field.type)} for field in table.schema]
    fastavro.writer(body, {"type": "record", "name": "r", "fields": fields}, table.to_pylist())
    return body.getvalue()


def avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "items": avro_type(kind.value_type)}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    of = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean"}
    times = {pa.date32(): ("int", "date"), pa.timestamp("us", "UTC"): ("long", "timestamp-micros")}
    return of.get(kind) or dict(zip(("type", "logicalType"), times[kind], strict=True))


WRITE: Mapping[str, Callable[[pa.Table], bytes]] = {"parquet": parquet, "orc": orc_file, "avro": avro_file}


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def land(name: str) -> None:
    Path("landing").mkdir()
    for at, file in enumerate("ab"):
        columns = {"id": pa.array([2 * at, 2 * at + 1]), **{key: held[1 + at] for key, held in COLUMNS.items()}}
        Path(f"landing/{file}.{name}").write_bytes(WRITE[name](pa.table(columns)))


def configure(how: str, name: str) -> None:
    if how == "init":
        assert main(["init", "landing", "--table-uri", "lake/t"]) == 0
        return
    schema = "schema: infer" if how == "infer" else "schema: id BIGINT, new_fields: add"
    source = f"{{uri: landing, format: {name}, settle_delay_secs: 0, {schema}}}"
    Path("pipelines.yaml").write_text(f"pipelines: {{p: {{table_uri: lake/t, sources: {{s: {source}}}}}}}\n")


@pytest.mark.parametrize("how", ["init", "infer", "add"])
@pytest.mark.parametrize("name", WRITE)
def test_all_records_of_both_files_become_rows(name: str, how: str, capfd: pytest.CaptureFixture[str]) -> None:
    land(name)
    configure(how, name)
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    rows = DeltaTable("lake/t").to_pyarrow_table().sort_by("id")
    assert {key: rows.column(key).to_pylist() for key in ROWS} == ROWS
    assert not [*Path("lake").glob("**/dead_letters/*")]


def test_init_names_the_types_that_a_column_gives_up() -> None:
    land("parquet")
    configure("init", "parquet")
    text = Path("pipelines.yaml").read_text()
    for name, types in {
        "count": "DOUBLE,  -- in 4 of 4 records; found BIGINT 2, DOUBLE 2",
        "price": "DOUBLE,  -- in 4 of 4 records; found DOUBLE 2, DECIMAL(10,2) 2",
        "code": "STRING,  -- in 4 of 4 records; found BIGINT 2, STRING 2",
        "at": "TIMESTAMP,  -- in 4 of 4 records\n",
    }.items():
        assert f" {name} {types}" in text, text


def test_a_time_of_day_in_one_file_only_is_text() -> None:
    Path("landing").mkdir()
    for file, values in {"a": pa.array([1]), "b": pa.array([time(10)], pa.time64("us"))}.items():
        Path(f"landing/{file}.parquet").write_bytes(parquet(pa.table({"v": values})))
    configure("infer", "parquet")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    rows = DeltaTable("lake/t").to_pyarrow_table()
    assert sorted(rows.column("v").to_pylist()) == ["1", "10:00:00.000000"]


def test_a_number_that_a_double_cannot_hold_is_a_dead_letter() -> None:
    Path("landing").mkdir()
    for file, values in {"a": pa.array([1, (1 << 53) + 1]), "b": pa.array([1.5])}.items():
        Path(f"landing/{file}.parquet").write_bytes(parquet(pa.table({"v": values})))
    configure("infer", "parquet")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    assert sorted(DeltaTable("lake/t").to_pyarrow_table().column("v").to_pylist()) == [1.0, 1.5]
    (letters,) = Path("lake").glob("**/dead_letters/*/records-*")
    assert "v: the value does not fit double" in letters.read_text()
