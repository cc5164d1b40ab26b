"""Arrow tables as files of the formats that have types of their own."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def orc_file(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    orc.write_table(table, file, **options)
    return file.getvalue()
