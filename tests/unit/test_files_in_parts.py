"""A file larger than a batch, of each format: it is committed in parts, the job is killed between them, and goes on
inside the file."""

import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from tests.unit.local_runs import letters_in, rows_in, run, run_killed_after_a_commit
from tests.unit.table_files import orc_file, parquet

Record = tuple[int | None, str]
COUNT, REFUSED = 3_000, 2_000
"""Record 2,000 has no id, which is NOT NULL."""
_RANDOM = random.Random(7)
RECORDS: Sequence[Record] = [
    (None if number == REFUSED else number * 10, f"{number}-{_RANDOM.randbytes(750).hex()}") for number in range(COUNT)
]
"""4.5 MB, which a codec inside of the file makes half as large at most."""
GOOD = [(number, *record) for number, record in enumerate(RECORDS) if number != REFUSED]


def _json(record: Record) -> str:
    return json.dumps({"id": record[0], "value": record[1]})


def _xml(record: Record) -> str:
    number = "" if record[0] is None else f"<id>{record[0]}</id>"
    return f"<one>{number}<value>{record[1]}</value></one>"


def _table(records: Sequence[Record]) -> pa.Table:
    return pa.table({"id": pa.array([number for number, _ in records], pa.int64()), "value": [v for _, v in records]})


def _avro(records: Sequence[Record]) -> bytes:
    fields = [{"name": "id", "type": ["null", "long"]}, {"name": "value", "type": "string"}]
    file = io.BytesIO()
    rows = [{"id": number, "value": value} for number, value in records]
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows, sync_interval=100_000)
    return file.getvalue()


WRITE: Mapping[str, Callable[[Sequence[Record]], bytes]] = {
    "ndjson": lambda records: "\n".join(map(_json, records)).encode(),
    "json": lambda records: f"[{','.join(map(_json, records))}]".encode(),
    "csv": lambda records: "\n".join(["value,id", *(f"{v},{'' if n is None else n}" for n, v in records)]).encode(),
    "xml": lambda records: f"<all>{''.join(map(_xml, records))}</all>".encode(),
    "avro": _avro,
    "parquet": lambda records: parquet(_table(records), row_group_size=400, compression="none", use_dictionary=False),
    "orc": lambda records: orc_file(_table(records), stripe_size=1 << 19, batch_size=64, compression="uncompressed"),
}
OPTIONS = {"xml": ["xml: {row_tag: one}"]}
PARTS = "checkpoint: {interval_bytes: 1MiB}"


def check_parts(folder: Path, source: Sequence[str], expected: Sequence[tuple[object, ...]], *columns: str) -> None:
    """`expected`: the rows, each with its number in front."""

    def found() -> list[tuple[object, ...]]:
        return [(row["_source"]["row"], *(row[column] for column in columns)) for row in rows_in(folder)]

    done = 0
    for _ in range(2):
        run_killed_after_a_commit(folder, *source)
        rows = found()
        assert done < len(rows) < len(expected)
        assert rows == [*expected[: len(rows)]]
        done = len(rows)
    run(folder, *source)
    assert found() == [*expected]
    assert len({row["_source"]["sequence"] for row in rows_in(folder)}) >= 3


@pytest.mark.parametrize("name", WRITE)
def test_a_file_in_parts_goes_on_where_a_killed_job_left_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"large.{name}").write_bytes(WRITE[name](RECORDS))
    source = [f"format: {name}", "schema: id BIGINT NOT NULL, value STRING", PARTS, *OPTIONS.get(name, [])]
    check_parts(tmp_path, source, GOOD, "id", "value")
    letters = [(letter["path"], letter["row"]) for letter in letters_in(tmp_path)]
    assert letters == [(f"large.{name}", REFUSED)]


def test_a_file_of_lines_in_parts_goes_on_where_a_killed_job_left_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "large.text").write_text("\n".join(value for _, value in RECORDS))
    check_parts(tmp_path, ["format: text", PARTS], [(n, value) for n, (_, value) in enumerate(RECORDS)], "value")
