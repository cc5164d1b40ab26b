"""The formats that the tests of all formats go through, and how to write files of each."""

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import orc
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.format_options import CsvOptions, XmlOptions
from spark_job.formats.protocol import Format, Limits
from spark_job.formats.registry import FORMATS, MakeFormat, Options
from tests.unit.other_formats import Columns, ValueStream

ROOT = Path(__file__).parents[2]
SCHEMA = StructType([StructField("id", StringType(), nullable=False)])
TEXT = StructType([StructField("value", StringType())])
PAGE = ROOT / "docs" / "formats.md"
ROWS_A_GROUP = 4
LIMITS = Limits(max_record_bytes=4_096)


@dataclass(frozen=True)
class Kind:
    """A format, and how to write files for it."""

    make: MakeFormat
    schema: StructType
    write: Callable[[list[str]], bytes]
    bad: bytes
    """A file of three records. Number 1 is refused."""
    broken: bytes | None
    """A file that is refused as a whole; None where any bytes are good."""
    damage: Callable[[bytes], bytes] | None
    """Makes a file refused as a whole by what is at its end. The file has two blocks at least. None: the format's own
    library reads all of a file of this size at once."""
    options: Options = field(default_factory=dict)
    write_as_one: Callable[[list[str]], bytes] | None = None
    """Writes a file as one part, if files of the format have parts."""

    def open(self) -> Format[Any]:
        return self.make(self.schema, LIMITS, self.options)


def parquet(records: Sequence[str | None], rows_a_group: int = ROWS_A_GROUP) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(records, pa.string())}), file, row_group_size=rows_a_group)
    return file.getvalue()


def without_last_row_group(stored: bytes) -> bytes:
    """With other bytes in its place."""
    metadata = pq.ParquetFile(io.BytesIO(stored)).metadata
    column = metadata.row_group(metadata.num_row_groups - 1).column(0)
    start, size = column.dictionary_page_offset, column.total_compressed_size
    return stored[:start] + b"\xff" * size + stored[start + size :]


def orc_file(records: Sequence[str]) -> bytes:
    file = io.BytesIO()
    orc.write_table(pa.table({"id": pa.array(records, pa.string())}), file, stripe_size=1 << 19, batch_size=16)
    return file.getvalue()


AVRO_SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "string"]}]}


def avro(records: Sequence[str | None]) -> bytes:
    """In blocks of a few records."""
    file = io.BytesIO()
    fastavro.writer(file, AVRO_SCHEMA, [{"id": record} for record in records], sync_interval=16)
    return file.getvalue()


def xml(records: Sequence[str]) -> bytes:
    return b"<all>" + b"\n".join(f"<one><id>{record}</id></one>".encode() for record in records) + b"</all>"


def csv(records: Sequence[str]) -> bytes:
    return "\n".join(["other,id", *(f"x,{record}" for record in records)]).encode()


CSV_OPTIONS = CsvOptions().model_dump(mode="json")
XML_OPTIONS = XmlOptions(row_tag="one").model_dump(mode="json")


def ndjson(records: list[str]) -> bytes:
    return "\n".join(json.dumps({"id": record}) for record in records).encode()


def documented_format() -> MakeFormat:
    """The format that docs/formats.md shows."""
    code = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert code
    names: dict[str, Any] = {}
    exec(compile(code[1], PAGE, "exec"), names)
    return cast("MakeFormat", names["DelimitedFormat"])


KINDS = {
    "ndjson": Kind(
        FORMATS["ndjson"],
        SCHEMA,
        ndjson,
        bad=b'{"id": "a"}\n{"id": \n{"id": "c"}',
        broken=b'{"id": "\xff"}',
        damage=lambda stored: stored + b'\n{"id": "\xff"}',
    ),
    "json": Kind(
        FORMATS["json"],
        SCHEMA,
        lambda records: json.dumps([{"id": record} for record in records], indent=1).encode(),
        bad=b'[{"id": "a"}, {"id": }, {"id": "c"}]',
        broken=b'[{"id": "a"}',
        damage=lambda stored: stored[:-1] + b' {"id": "x"}]',
        options={"records": None},
    ),
    "csv": Kind(
        FORMATS["csv"],
        SCHEMA,
        csv,
        bad=b"id\na\nb,b\nc",
        broken=b"name\na",
        damage=lambda stored: stored + b"\n\xff",
        options=CSV_OPTIONS,
    ),
    "parquet": Kind(
        FORMATS["parquet"],
        SCHEMA,
        parquet,
        bad=parquet(["a", None, "c"]),
        broken=b"PAR1 but no Parquet",
        damage=without_last_row_group,
        write_as_one=lambda records: parquet(records, len(records)),
    ),
    "avro": Kind(
        FORMATS["avro"],
        SCHEMA,
        avro,
        bad=avro(["a", None, "c"]),
        broken=b"Obj\x01 but no Avro",
        damage=lambda stored: stored[:-20],
    ),
    "orc": Kind(
        FORMATS["orc"],
        SCHEMA,
        orc_file,
        bad=orc_file(["a", None, "c"]),  # type: ignore[list-item]
        broken=b"ORC but no ORC",
        damage=None,
    ),
    "xml": Kind(
        FORMATS["xml"],
        SCHEMA,
        xml,
        bad=b"<all><one><id>a</id></one><one><id>b</id><id>b</id></one><one><id>c</id></one></all>",
        broken=b"<all><one></all>",
        damage=lambda stored: stored[:-3],
        options=XML_OPTIONS,
    ),
    "mixed": Kind(
        FORMATS["mixed"],
        SCHEMA,
        ndjson,
        bad=b'{"id": "a"}\n{"id": \n{"id": "c"}',
        broken=b'{"id": "\xff"}',
        damage=lambda stored: stored + b'\n{"id": "\xff"}',
        options={
            "rules": [
                {"pattern": "*.csv", "format": "csv", "compression": "auto", "options": CSV_OPTIONS},
                {"pattern": "**", "format": "ndjson", "compression": "auto", "options": {}},
            ]
        },
    ),
    "text": Kind(
        FORMATS["text"],
        TEXT,
        lambda records: "\n".join(records).encode(),
        bad=b"a\n\xff\nc",
        broken=None,
        damage=lambda stored: stored + b"\n" + b"x" * 5_000,
    ),
    "values": Kind(
        ValueStream,
        SCHEMA,
        lambda records: " \n".join(json.dumps({"row": {"id": record}}, indent=1) for record in records).encode(),
        bad=b'{"row": {"id": "a"}} 17 {"row": {"id": "c"}}',
        broken=b'{"row": {"id": "a"}} {"row": {"id',
        damage=lambda stored: stored + b' {"row": {"id": "\xff"}}',
        options={"member": "row"},
    ),
    "columns": Kind(
        Columns,
        SCHEMA,
        parquet,
        bad=parquet(["a", None, "c"]),
        broken=b"PAR1 but no Parquet",
        damage=without_last_row_group,
        write_as_one=lambda records: parquet(records, len(records)),
    ),
    "documented": Kind(
        documented_format(),
        SCHEMA,
        lambda records: "\n".join(records).encode(),
        bad=b"a\nb|b\nc",
        broken=b"\xff",
        damage=lambda stored: stored + b"\n\xff",
        options={"delimiter": "|"},
    ),
}
RECORDS = [f"r{number:02}" for number in range(10)]
