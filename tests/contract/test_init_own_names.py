"""`blizzard init` of files with names that a table cannot have, or only by column mapping: no value is left out."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from blizzard.infer.reasons import OWN_NAMES
from tests.unit.table_files import orc_file, parquet

pytestmark = pytest.mark.usefixtures("signals_as_before")

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("landing").mkdir()


def init() -> int:
    return main(["init", "landing", "--table-uri", "lake/t"])


ODD = [{"Order ID": 1, "x, y": "a", "größe.in": 1.5}, {"Order ID": 2, "x, y": "b", "größe.in": 2.5}]
WRITE_ODD: Mapping[str, Callable[[], bytes]] = {
    "ndjson": lambda: b"".join(json.dumps(one).encode() + b"\n" for one in ODD),
    "json": lambda: json.dumps(ODD, indent=1).encode(),
    "csv": lambda: b'Order ID,"x, y",gr\xc3\xb6\xc3\x9fe.in\n1,a,1.5\n2,b,2.5\n',
    "parquet": lambda: parquet(pa.Table.from_pylist(ODD)),
    "orc": lambda: orc_file(pa.Table.from_pylist(ODD)),
}


@pytest.mark.parametrize("suffix", WRITE_ODD)
def test_a_key_that_no_column_can_be_called_fills_one_of_another_name(suffix: str, capfd: Out) -> None:
    Path("landing", f"a.{suffix}").write_bytes(WRITE_ODD[suffix]())
    assert init() == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    assert f'fields:  # {OWN_NAMES}\n          Order_ID: "Order ID"\n          x_y: "x, y"\n' in text
    assert "Order_ID BIGINT,  -- in 2 of 2 records" in text
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    rows = DeltaTable("lake/t").to_pyarrow_table().drop_columns(["_source"]).sort_by("Order_ID").to_pylist()
    assert rows == [{"Order_ID": n, "x_y": text, "größe.in": size} for n, text, size in ((1, "a", 1.5), (2, "b", 2.5))]
    assert "no column for" not in capfd.readouterr().out


def test_columns_of_csv_that_move_are_found_by_the_names_in_the_files(capfd: Out) -> None:
    Path("landing", "a.csv").write_text("Order ID,Sent to,n\n1,Bern,5\n2,Ulm,6\n")
    Path("landing", "b.csv").write_text("Sent to,n,Order ID\nRom,7,3\n")
    assert init() == 0, capfd.readouterr()
    Path("landing", "c.csv").write_text("n,Order ID,Sent to\n8,4,Paris\n")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    rows = DeltaTable("lake/t").to_pyarrow_table().sort_by("Order_ID").select(["Order_ID", "Sent_to", "n"]).to_pylist()
    assert [[*row.values()] for row in rows] == [[1, "Bern", 5], [2, "Ulm", 6], [3, "Rom", 7], [4, "Paris", 8]]


def test_files_that_are_divided_in_another_way_give_no_column(capfd: Out) -> None:
    for name, mark in (("a.csv", ","), ("b.csv", ","), ("c.csv", ";")):
        Path("landing", name).write_text(f"id{mark}name\n1{mark}Ana\n2{mark}Bob\n")
    assert init() == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    assert "# 1 of 3 files that were looked at are divided in another way, such as c.csv; the" in text
    assert "fields:" not in text
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    assert sorted(DeltaTable("lake/t").to_pyarrow_table().column("name").to_pylist()) == ["Ana", "Ana", "Bob", "Bob"]
    [letter] = [one for one in Path("lake").glob("**/dead_letters/**/*") if one.is_file()]
    assert "it has none of the schema's columns; it has id;name" in letter.read_text()


def test_a_column_of_csv_without_a_name_is_called_by_its_position(capfd: Out) -> None:
    """As pandas writes the index of its rows; the last one, which spreadsheets write, has no value."""
    Path("landing", "a.csv").write_text(",id,name,\n7,1,Ana,\n8,2,Bob,\n")
    assert init() == 0, capfd.readouterr()
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    rows = DeltaTable("lake/t").to_pyarrow_table().drop_columns(["_source"]).sort_by("id").to_pylist()
    assert rows == [{"_c0": 7, "id": 1, "name": "Ana"}, {"_c0": 8, "id": 2, "name": "Bob"}]
    assert "no column for _c3 (records: 2, first in a.csv)" in capfd.readouterr().out


SPELLED: Mapping[str, Sequence[bytes]] = {
    "ndjson": [b'{"id": 1, "Name": "Ana", "p": {"Zip": 5}}\n', b'{"ID": 2, "name": "Bob", "P": {"zip": 6}}\n'],
    "csv": [b"id,Name,p\n1,Ana,5\n", b"name,P,ID\nBob,6,2\n"],
    "parquet": [
        parquet(pa.table({"id": [1], "Name": ["Ana"], "p": [5]})),
        parquet(pa.table({"P": [6], "name": ["Bob"], "ID": [2]})),
    ],
}


@pytest.mark.parametrize("suffix", SPELLED)
def test_keys_that_producers_spell_in_another_case_are_one_column(suffix: str, capfd: Out) -> None:
    for at, body in enumerate(SPELLED[suffix]):
        Path("landing", f"{at}.{suffix}").write_bytes(body)
    assert init() == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    assert "        keys: ignore_case  # no record has two of id and ID, Name and name, p and P\n" in text
    assert "id BIGINT,  -- in 2 of 2 records" in text
    assert "no column for" not in text
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    rows = DeltaTable("lake/t").to_pyarrow_table().drop_columns(["_source"]).sort_by("id").to_pylist()
    inner = "Zip" if suffix == "ndjson" else None
    assert rows == [
        {"id": 1, "Name": "Ana", "p": {inner: 5} if inner else 5},
        {"id": 2, "Name": "Bob", "p": {inner: 6} if inner else 6},
    ]
    assert "no column for" not in capfd.readouterr().out


def test_keys_that_one_record_has_in_two_cases_are_two_fields(capfd: Out) -> None:
    Path("landing", "a.ndjson").write_text('{"id": 1, "ID": "x"}\n{"id": 2}\n{"n": 5}\n')
    assert init() == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    assert "keys:" not in text
    assert "id BIGINT,  -- in 2 of 3 records" in text
    assert "# no column for ID: column `ID` differs from `id` only in case" in text


def test_a_field_with_a_name_that_is_taken_is_read_under_another_one(capfd: Out) -> None:
    """As an export of Elasticsearch has it."""
    hits = [{"_index": "logs", "_id": f"{n}", "_source": {"user": "ana", "n": n}} for n in range(3)]
    Path("landing", "a.ndjson").write_text("".join(json.dumps(one) + "\n" for one in hits))
    assert init() == 0, capfd.readouterr()
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    found = DeltaTable("lake/t").to_pyarrow_table()
    assert sorted(found.column("source").to_pylist(), key=str) == [{"user": "ana", "n": n} for n in range(3)]
    assert {one["file"] for one in found.column("_source").to_pylist()} == {"a.ndjson"}
