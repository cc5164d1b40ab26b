"""`blizzard init` as a user runs it: what it writes ingests every record, and where it cannot tell it says why."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from blizzard.infer.findings import Findings
from blizzard.infer.listing import MAX_REQUESTS
from tests.contract.landings import LANDINGS, Landing

pytestmark = pytest.mark.usefixtures("signals_as_before")

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def init(uri: str = "landing", *options: str) -> int:
    return main(["init", uri, "--table-uri", "lake/t", *options])


def type_text(kind: Any) -> str:
    """As Spark prints it."""
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                return f"array<{type_text(kind['elementType'])}>"
            case "struct":
                fields = ",".join(f"{field['name']}:{type_text(field['type'])}" for field in kind["fields"])
                return f"struct<{fields}>"
    return {"long": "bigint", "integer": "int"}.get(kind, kind)


@pytest.mark.parametrize("make", LANDINGS.values(), ids=LANDINGS)
def test_the_configuration_ingests_every_record(make: Callable[[Path], Landing], tmp_path: Path, capfd: Out) -> None:
    wanted = make(tmp_path / "landing")
    assert init() == 0, capfd.readouterr().err
    text = (tmp_path / "pipelines.yaml").read_text()
    assert [line for line in wanted.source if line not in text] == [], text
    assert main(["validate", "pipelines.yaml"]) == 0
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    table = DeltaTable("lake/t")
    types = {field["name"]: type_text(field["type"]) for field in json.loads(table.schema().to_json())["fields"]}
    assert {name: types.get(name) for name in wanted.types} == wanted.types
    rows = table.to_pyarrow_table()
    assert rows.num_rows == wanted.rows
    for column, values in wanted.values.items():
        assert {*rows.column(column).to_pylist()} == values
    assert not [*Path("lake").glob("**/dead_letters/*")]


def test_it_says_beforehand_what_it_may_cost_and_ends_with_what_to_do(tmp_path: Path, capfd: Out) -> None:
    LANDINGS["mixed_junk"](tmp_path / "landing")
    assert init() == 0
    shown = capfd.readouterr()
    assert shown.err.startswith(
        f"looking at landing: at most {MAX_REQUESTS} LIST requests, and 90 files, of which at most 5,898,240 bytes"
    )
    assert "t:landing: 2 files of ndjson and csv in file://" in shown.out
    assert "not read: 1 file, such as logo.png: a PNG image" in shown.out
    assert shown.out.endswith("  blizzard validate pipelines.yaml\n  blizzard run --once pipelines.yaml\n")


def test_a_table_that_exists_is_named_with_the_command_that_compares(tmp_path: Path, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.ndjson").write_text('{"id": "x"}\n{"id": "y"}\n')
    write_deltalake("lake/t", pa.table({"id": [1]}))
    assert init() == 0
    said = "the table exists; what a run would change there, `blizzard validate FILE --against-table` says"
    shown = capfd.readouterr().out
    assert f"  {said}\n" in shown
    assert f"    # {said}\n" in (tmp_path / "pipelines.yaml").read_text()
    assert shown.endswith("  blizzard validate pipelines.yaml --against-table\n  blizzard run --once pipelines.yaml\n")
    assert main(["validate", "pipelines.yaml", "--against-table"]) == 1
    assert "is refused: column id: expected string, found bigint" in capfd.readouterr().out


def test_a_header_with_a_name_twice_is_no_record(tmp_path: Path, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id,name,name\n1,Ana,Bern\n2,Bob,Ulm\n")
    assert init() == 0
    assert "by position, because a table cannot have the name 'name' twice" in capfd.readouterr().out
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    rows = DeltaTable("lake/t").to_pyarrow_table().select(["id", "name", "name_2"]).to_pylist()
    assert sorted(map(list, map(dict.values, rows))) == [[1, "Ana", "Bern"], [2, "Bob", "Ulm"]]


def test_a_country_whose_code_is_a_word_for_null_is_kept(tmp_path: Path, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id,country,n\n1,NA,5\n2,DE,NA\n3,FR,7\n")
    assert init() == 0
    said = "'NA' is a text in country, so it is not read as null, and n stays STRING"
    assert said in capfd.readouterr().out
    assert f"# {said}" in (tmp_path / "pipelines.yaml").read_text()
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    rows = DeltaTable("lake/t").to_pyarrow_table()
    assert {*rows.column("country").to_pylist()} == {"NA", "DE", "FR"}
    assert {*rows.column("n").to_pylist()} == {"5", "NA", "7"}


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_records_longer_than_the_bytes_that_are_read_first_are_whole(tmp_path: Path, suffix: str, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    for at in range(70):
        data = json.dumps({"id": at, "text": "x" * 200_000, "last": 1.5}) + "\n"
        data = data if suffix == "ndjson" else f"id,text,last\n{at},{'x' * 200_000},1.5\n"
        (tmp_path / "landing" / f"{at}.{suffix}").write_text(data)
    assert init() == 0, capfd.readouterr()
    text = (tmp_path / "pipelines.yaml").read_text()
    assert f"format: {suffix}  # by the content of all 3 files that were opened" in text
    assert "last DOUBLE" in text
    assert "# records are long: only 3 files were looked into" in text


def test_a_parquet_column_of_which_no_field_can_be_stored_is_left_out(tmp_path: Path, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    rows = pa.table({"id": [1, 2], "items": [[{"c d": 1}], []], "one": [{"e f": 1}, None]})
    pq.write_table(rows, tmp_path / "landing" / "a.parquet")
    assert init() == 0, capfd.readouterr()
    assert (
        "no column for items: column `items` has a struct of which no field can be a column" in capfd.readouterr().out
    )
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    assert sorted(DeltaTable("lake/t").to_pyarrow_table().column("id").to_pylist()) == [1, 2]
    assert not [*Path("lake").glob("**/dead_letters/*")]


def test_what_may_be_read_follows_the_options(tmp_path: Path, capfd: Out) -> None:
    (tmp_path / "landing").mkdir()
    for at in range(20):
        (tmp_path / "landing" / f"{at}.ndjson").write_text('{"id": 1}\n' * 20_000)
    looked_at = list[tuple[int, int]]()
    for options in (("--sample-files", "4"), ("--sample-files", "400", "--sample-bytes", "30000000")):
        assert init("landing", "--json", "--out", "-", *options) == 0
        shown = capfd.readouterr()
        assert f"{max(90, int(options[1]))} files, of which at most" in shown.err
        (source,) = Findings.of_json(json.loads(shown.out)).pipelines[0].sources
        looked_at.append((source.looked_at, source.records))
    assert "at most 30,000,000 bytes are read" in shown.err
    assert looked_at == [(4, 400_000 // 20 * 4), (20, 400_000)]


def test_the_configuration_holds_no_value_of_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "a.ndjson").write_text('{"name": "secret-of-somebody", "n": 1}\n{"name": 7, "n": "other-secret"}\n')
    assert init() == 0
    text = (tmp_path / "pipelines.yaml").read_text()
    assert "secret" not in text
    assert "in 2 of 2 records; found STRING 1, BIGINT 1" in text
    assert "# `name` has values of several types; a run needs Spark, and so Java, for them" in text


def test_what_folders_say_is_no_column_if_no_table_could_have_it(tmp_path: Path) -> None:
    folder = tmp_path / "landing" / "id=5" / "_day=1" / "a b=2"
    folder.mkdir(parents=True)
    (folder / "a.ndjson").write_text('{"id": 1}\n{"id": 2}\n')
    assert init() == 0
    text = (tmp_path / "pipelines.yaml").read_text()
    assert "partition_columns" not in text
    assert "# `id` is in the folders and in the records; that of the records is taken" in text
    assert "# `a b` of the folders is no column" in text


def test_folders_of_different_records_become_tables_of_their_own(tmp_path: Path, capfd: Out) -> None:
    for place, record in (("users", {"user": 1, "mail": "x"}), ("clicks", {"at": 5, "page": "y"})):
        (tmp_path / "landing" / place).mkdir(parents=True)
        (tmp_path / "landing" / place / "a.ndjson").write_text(json.dumps(record))
    assert init() == 0
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0, capfd.readouterr()
    assert DeltaTable("lake/t/users").to_pyarrow_table().column("mail").to_pylist() == ["x"]
    assert DeltaTable("lake/t/clicks").to_pyarrow_table().column("page").to_pylist() == ["y"]


def test_folders_of_the_same_records_become_one_source(tmp_path: Path) -> None:
    for place in ("north", "south"):
        (tmp_path / "landing" / place).mkdir(parents=True)
        (tmp_path / "landing" / place / "a.ndjson").write_text('{"id": 1, "name": "x"}')
    assert init() == 0
    text = (tmp_path / "pipelines.yaml").read_text()
    assert text.count("uri: file://") == 2
    assert f"uri: file://{tmp_path}/landing/\n" in text


def test_files_without_an_extension_are_told_apart_from_what_their_pattern_matches(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "events-1").write_text('{"id": 1}\n{"id": 2}\n')
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n")
    assert init() == 0
    text = (tmp_path / "pipelines.yaml").read_text()
    assert 'pattern: "**/[!._]*"' in text
    assert "# the pattern also matches files such as logo.png (a PNG image), which will be dead letters" in text


def test_json_is_what_the_documentation_says(tmp_path: Path, capfd: Out) -> None:
    LANDINGS["parquet_exports"](tmp_path / "landing")
    assert init("landing", "--json", "--out", "other.yaml") == 0
    found = json.loads(capfd.readouterr().out)
    assert found.pop("config") == Path("other.yaml").read_text()
    assert found.pop("out") == "other.yaml"
    findings = Findings.of_json(found)
    (source,) = findings.pipelines[0].sources
    assert (source.files, source.records, dict(source.partition_columns)) == (
        3,
        150,
        {"year": "int", "month": "int", "day": "int"},
    )


def test_the_configuration_goes_to_standard_output(tmp_path: Path, capfd: Out) -> None:
    LANDINGS["taxi_trips"](tmp_path / "landing")
    assert init("landing", "--out", "-") == 0
    shown = capfd.readouterr()
    assert shown.out.startswith("# Written by `blizzard init`")
    assert "VendorID" in shown.err
    assert not Path("pipelines.yaml").exists()


class TestWhereItCannotTell:
    def refused(self, capfd: Out, uri: str = "landing", *options: str) -> str:
        assert init(uri, *options) == 2
        assert not Path("lake").exists()
        return capfd.readouterr().err.splitlines()[-1]

    def test_there_is_no_such_folder(self, capfd: Out) -> None:
        assert "there is no such bucket or folder" in self.refused(capfd)

    def test_there_is_no_file(self, tmp_path: Path, capfd: Out) -> None:
        (tmp_path / "landing").mkdir()
        assert "there is no file; upload some, or name the folder that has them" in self.refused(capfd)

    def test_there_are_only_files_that_nobody_reads(self, tmp_path: Path, capfd: Out) -> None:
        (tmp_path / "landing").mkdir()
        (tmp_path / "landing" / "a.zip").write_bytes(b"PK\x03\x04rest")
        (tmp_path / "landing" / "b.gz").write_bytes(b"\x1f\x8bbroken")
        said = self.refused(capfd)
        assert "no file has a format that Blizzard reads, or a record that it can tell" in said
        assert "a.zip: does not decompress: not a valid zip" in said
        assert "b.gz: does not decompress" in said

    def test_no_field_has_a_name_that_a_column_can_have(self, tmp_path: Path, capfd: Out) -> None:
        (tmp_path / "landing").mkdir()
        (tmp_path / "landing" / "a.ndjson").write_text('{"":1}\n{"":2}\n')
        assert "none of the 1 fields of the records can be a column (column `` has no name" in self.refused(capfd)
        assert not (tmp_path / "pipelines.yaml").exists()

    def test_no_record_ends_within_what_is_read(self, tmp_path: Path, capfd: Out) -> None:
        (tmp_path / "landing").mkdir()
        for name in "abc":
            (tmp_path / "landing" / f"{name}.csv").write_text("id,text\n1," + "x" * (7 << 20))
        said = self.refused(capfd)
        assert "a.csv: no record ends within the first 5" in said
        assert "raise --sample-bytes, or write the configuration by hand" in said

    def test_it_is_a_table(self, tmp_path: Path, capfd: Out) -> None:
        log = tmp_path / "landing" / "_delta_log"
        log.mkdir(parents=True)
        (log / "00000000000000000000.json").write_text("{}")
        assert "is a Delta table, or has one inside" in self.refused(capfd)

    def test_the_file_exists(self, tmp_path: Path, capfd: Out) -> None:
        LANDINGS["taxi_trips"](tmp_path / "landing")
        (tmp_path / "pipelines.yaml").write_text("mine")
        assert "--out pipelines.yaml: the file exists; move it away" in self.refused(capfd)
        assert (tmp_path / "pipelines.yaml").read_text() == "mine"

    def test_the_table_is_inside_the_landing_folder(self, tmp_path: Path, capfd: Out) -> None:
        LANDINGS["taxi_trips"](tmp_path / "lake")
        assert main(["init", "lake", "--table-uri", "lake/t"]) == 2
        assert "the table's own files would be ingested" in capfd.readouterr().err
        assert not (tmp_path / "pipelines.yaml").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_access_is_denied(self, tmp_path: Path, capfd: Out) -> None:
        (tmp_path / "landing").mkdir(mode=0)
        assert "denied" in self.refused(capfd)

    @pytest.mark.parametrize(("uri", "what"), [("gs://b/x", "URI: found 'gs://b/x'"), ("s3://A", "as the bucket")])
    def test_the_place_cannot_be_one(self, capfd: Out, uri: str, what: str) -> None:
        assert what in self.refused(capfd, uri)


# -- proposals, each with how sure it is


HEAD_BYTES = 1 << 16
LITTLE = ("landing", "--sample-bytes", f"{HEAD_BYTES}")
"""Reads no more of each file."""


def land_large(folder: Path, *records: dict[str, Any], size: int = 6 << 30) -> None:
    """Files whose beginnings hold the records: the rest takes no room on the disk."""
    folder.mkdir(parents=True)
    for name in ("a.ndjson", "b.ndjson"):
        lines = "".join(json.dumps(one) + "\n" for one in records)
        (folder / name).write_text(lines * (HEAD_BYTES // len(lines) + 2))
        os.truncate(folder / name, size)


def proposed(name: str) -> list[str]:
    lines = [line.strip() for line in Path("pipelines.yaml").read_text().splitlines()]
    return [line for line in lines if line.lstrip("# ").startswith(f"{name}:")]


TIMED = [{"id": at, "label": "x", "at": f"2026-11-21T10:00:{at % 60:02d}Z"} for at in range(60)]


def test_a_large_table_in_folders_of_dates_is_partitioned_by_them(tmp_path: Path) -> None:
    land_large(tmp_path / "landing" / "day=2026-11-21", *TIMED, size=3 << 30)
    land_large(tmp_path / "landing" / "day=2026-11-22", *TIMED, size=3 << 30)
    assert init(*LITTLE) == 0
    assert proposed("partition_by") == ['partition_by: ["day"]']
    assert proposed("cluster_by") == []
    assert "# the files have 12,884,901,888 bytes, and each folder is a day" in Path("pipelines.yaml").read_text()
    assert main(["validate", "pipelines.yaml"]) == 0


def test_a_large_table_without_such_folders_may_be_clustered_by_a_time(tmp_path: Path) -> None:
    land_large(tmp_path / "landing", *TIMED)
    assert init(*LITTLE) == 0
    [line] = proposed("cluster_by")
    assert line == '# cluster_by: ["at"]  # a guess, if queries ask for times; such a table needs Spark for its commits'
    assert "# no partition_by: no folder says the date of its files" in Path("pipelines.yaml").read_text()
    switched_on = Path("pipelines.yaml").read_text().replace("# cluster_by", "cluster_by")
    Path("pipelines.yaml").write_text(switched_on)
    assert main(["validate", "pipelines.yaml"]) == 0


@pytest.mark.parametrize("why", ["small", "no time", "a time is missing"])
def test_otherwise_nothing_is_proposed_to_cluster_by(tmp_path: Path, why: str) -> None:
    records = {
        "small": TIMED,
        "no time": [{"id": one["id"]} for one in TIMED],
        "a time is missing": [*TIMED, {"id": 60, "label": "x"}],
    }
    land_large(tmp_path / "landing", *records[why], size=(6 << 30) if why != "small" else 1 << 20)
    assert init(*LITTLE) == 0
    assert (proposed("partition_by"), proposed("cluster_by")) == ([], [])


def test_columns_that_all_records_have_are_named_and_stay_nullable(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    records = [{"id": at, "größe": "x", **({} if at == 7 else {"label": "y"})} for at in range(120)]
    (tmp_path / "landing" / "a.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    assert init() == 0
    text = Path("pipelines.yaml").read_text()
    said = "in all of the 120 records: id, `größe`. If no record may lack one, write NOT NULL behind its type: one that"
    assert f"        # {said} does is a dead letter then\n" in text
    schema = text.partition("schema: |-\n")[2].partition("        #")[0]
    assert "NOT NULL" not in schema
    few = tmp_path / "landing" / "a.ndjson"
    few.write_text("".join(json.dumps(one) + "\n" for one in records[:99]))
    assert init("landing", "--out", "other.yaml") == 0
    assert "NOT NULL" not in Path("other.yaml").read_text()


def test_what_is_said_of_not_null_is_so_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    records = [{"id": at, "label": "y"} for at in range(120)]
    (tmp_path / "landing" / "a.ndjson").write_text("".join(json.dumps(one) + "\n" for one in records))
    assert init() == 0
    switched_on = Path("pipelines.yaml").read_text().replace("label STRING", "label STRING NOT NULL")
    Path("pipelines.yaml").write_text(switched_on)
    (tmp_path / "landing" / "b.ndjson").write_text(json.dumps({"id": 120}) + "\n")
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 0
    assert DeltaTable("lake/t").to_pyarrow_table().num_rows == 120
    assert len([one for one in Path("lake").glob("**/dead_letters/**/*") if one.is_file()]) == 1
