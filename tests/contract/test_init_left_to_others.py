"""`blizzard init` says what no column holds, and what a run leaves to Spark."""

import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.cli import main

pytestmark = pytest.mark.usefixtures("signals_as_before")

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_no_column_can_hold_is_said_of_parquet_and_avro(capfd: Out) -> None:
    Path("landing").mkdir()
    pq.write_table(pa.table({"id": [1], "t": pa.array([1], pa.time64("us"))}), Path("landing") / "a.parquet")
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "int", "string", "double"]}]
    with (Path("landing") / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [{"id": 2, "v": "x"}])
    assert main(["init", "landing", "--table-uri", "lake/t"]) == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    assert "# no column for t: no column can hold it: time64[us]\n" in text
    union = "it is a union of int, string, double; expected at most one type beside null"
    assert f"# no column for v: no column can hold it: {union}\n" in text


def test_objects_that_are_always_empty_need_spark_and_a_comment_says_so(capfd: Out) -> None:
    Path("landing").mkdir()
    record = {"id": 1, "meta": {}, "items": [{"tags": {}, "n": 1}], "none": [], "full": {"a": 1}}
    (Path("landing") / "a.ndjson").write_text(f"{json.dumps(record)}\n" * 3)
    assert main(["init", "landing", "--table-uri", "lake/t"]) == 0, capfd.readouterr()
    text = Path("pipelines.yaml").read_text()
    notes = [line.strip() for line in text.splitlines() if "needs Spark" in line]
    said = "is an empty object in all records, and so STRING; a run needs Spark, and so Java, for it"
    assert notes == [f"# `meta` {said}", f"# `items[].tags` {said}"]
    assert main(["run", "--once", "--engine", "local", "pipelines.yaml"]) == 1
    assert "Spark is needed for deciding on records" in capfd.readouterr().err
