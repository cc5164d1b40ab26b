"""Formats that are broken on purpose, in the process that reads, which the campaign must find."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from spark_job.formats import columns
from spark_job.formats.avro.container import Container
from spark_job.formats.avro.format import AvroFormat
from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.csv import fields as csv_fields
from spark_job.formats.csv.format import CsvFormat
from spark_job.formats.decompress import _Decompressed
from spark_job.formats.json.stream_format import JsonFormat
from spark_job.formats.json.values import Values, ValueSplitter
from spark_job.formats.orc import reader as orc_reader
from spark_job.formats.orc.format import OrcFormat
from spark_job.formats.parquet import format as parquet_format
from spark_job.formats.parquet.page_sizes import PageSizes
from spark_job.formats.protocol import FileFault, Parsed
from spark_job.formats.text.whole_format import WholeTextFormat
from spark_job.formats.xml.format import XmlFormat
from tests.proof.campaign import Fault

Break = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A deliberate fault of one format, which so many `files` must show. `secs`: the bound of one file. `first`: the
    number of the first file, shortly before one that shows it with the seed of the test. `hang_secs`: for one file,
    whatever else the machine does; None: as without a fault."""

    fault: Fault
    kind: str
    breaks: Break
    files: int = 400
    secs: float = 10.0
    first: int = 0
    hang_secs: float | None = None


def broken(variant: str) -> AbstractContextManager[Any]:
    return VARIANTS[variant].breaks() if variant else nullcontext()


def _around_blocks(of: type, around: Callable[[Iterator[Any]], Iterator[Any]]) -> Break:
    """Changes what a format's `blocks` gives."""
    whole = of.blocks  # type: ignore[attr-defined]

    def blocks(self: Any, content: Any, *, first_record: int) -> Iterator[Any]:
        return around(whole(self, content, first_record=first_record))

    return lambda: patch.object(of, "blocks", blocks)


def _until_a_fault(blocks: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from blocks
    except FileFault:
        return


def _off_by_one(blocks: Iterator[Any]) -> Iterator[Any]:
    yield from (replace(block, first_record=block.first_record + bool(at)) for at, block in enumerate(blocks))


def _each_twice(blocks: Iterator[Any]) -> Iterator[Any]:
    """The first record of each block but the first one is the last one of the block before, once more."""
    before: Any = None
    for block in blocks:
        if before is not None:
            block = replace(block, records=[before, *block.records])
        before = block.records[-1]
        yield block


def _by_crash(blocks: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from blocks
    except FileFault:
        os.kill(os.getpid(), signal.SIGSEGV)


def _for_ever(blocks: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from blocks
    except FileFault:
        while time.time():
            pass


def _without_reason(blocks: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from blocks
    except FileFault as fault:
        raise FileFault(fault.stage, "") from fault


def _by_library(what: str, call: Callable[[], Any]) -> Any:
    return call()


def _uncaught() -> AbstractContextManager[Any]:
    """The library's own error."""
    return patch.multiple(parquet_format, by_library=_by_library, each_by_library=lambda what, batches, *_: batches)


def _filled_up() -> AbstractContextManager[Any]:
    """Records with fewer fields end in empty ones."""
    whole = csv_fields._read

    def read(text: bytes, names: Sequence[str], wanted: Sequence[str], dialect: Any) -> Any:
        delimiter = dialect.delimiter.encode()
        lines = text.split(b"\n")
        filled = [line + delimiter * max(0, len(names) - 1 - line.count(delimiter)) for line in lines]
        return whole(text if b'"' in text else b"\n".join(filled), names, wanted, dialect)

    return patch.object(csv_fields, "_read", read)


def _without_last() -> AbstractContextManager[Any]:
    whole = ValueSplitter.split

    def split(self: ValueSplitter, piece: bytes) -> Values:
        found = whole(self, piece)
        if self.rest is None or not found.count:
            return found
        fewer = Values()
        for text in list(found.records())[:-1]:
            fewer.add(text)
        fewer.broken = {at: why for at, why in found.broken.items() if at < fewer.count}
        return fewer

    return patch.object(ValueSplitter, "split", split)


def _any_mark() -> AbstractContextManager[Any]:
    whole = Container._exactly

    def exactly(self: Container, size: int, what: str) -> bytes:
        data = whole(self, size, what)
        return self.header.sync if what.startswith("the mark after") else data

    return patch.object(Container, "_exactly", exactly)


def _misfit_is_null() -> AbstractContextManager[Any]:
    whole = columns.fit

    def fit(values: pa.Array, wanted: Any, *more: Any, **rules: Any) -> ConvertedColumn:
        return replace(whole(values, wanted, *more, **rules), doubtful=frozenset())

    return patch.object(columns, "fit", fit)


@contextmanager
def _as_it_says() -> Iterator[None]:
    """Neither the sizes of pages nor the number of rows are compared."""
    with (
        patch.object(parquet_format, "counted", lambda what, batches, rows, part: batches),
        patch.object(PageSizes, "check", lambda self, group, columns: None),
    ):
        yield


@contextmanager
def _what_it_says() -> Iterator[None]:
    """Memory for a block as its header says, before the block is read."""
    whole = Container._checked_varint

    def checked(self: Container, what: str, most: int, *, least: int = 0) -> int:
        found = self._varint(what) if what.startswith("the size of block") else None
        if found is None:
            return whole(self, what, most, least=least)
        size = min(max(found, 0), 1 << 29)
        assert len(b"\1" * size) == size
        return min(max(found, 0), most)

    with patch.object(Container, "_checked_varint", checked):
        yield


def _whole_if_truncated() -> AbstractContextManager[Any]:
    whole = _Decompressed.read

    def read(self: _Decompressed, size: int = -1, /) -> bytes:
        try:
            return whole(self, size)
        except FileFault:
            return b""

    return patch.object(_Decompressed, "read", read)


def _refused_without_reason() -> AbstractContextManager[Any]:
    whole = XmlFormat.parse

    def parse(self: XmlFormat, blocks: Sequence[Any]) -> Parsed:
        parsed = whole(self, blocks)
        return replace(parsed, refused=[(number, " ") for number, _ in parsed.refused])

    return patch.object(XmlFormat, "parse", parse)


@contextmanager
def _by_orc_reader(module: str, *, waits_for_ever: bool = False) -> Iterator[None]:
    """The process that reads ORC is this one."""
    reader = orc_reader.READER
    reader.close()
    try:
        with (
            patch.object(orc_reader, "PROCESS", f"tests.proof.formats.{module}"),
            patch.object(reader, "_silent_secs", 1 << 30 if waits_for_ever else reader._silent_secs),
        ):
            yield
    finally:
        reader.close()


_REFUSES = r"an independent reader refuses the file"

VARIANTS: Mapping[str, Broken] = {
    "fields that are missing are null": Broken(
        Fault("a record with fewer fields than the header is a row", r"record \d+: .*independent reader refuses"),
        "csv",
        _filled_up,
    ),
    "the last element of an array is dropped": Broken(
        Fault("there are fewer records than elements", r"found \d+ records; an independent reader finds \d+"),
        "json",
        _without_last,
    ),
    "a record at the border of two blocks is in both": Broken(
        Fault("a block has more records than there are numbers", r"a block of \d+ records begins at record \d+; expec"),
        "csv",
        _around_blocks(CsvFormat, _each_twice),
    ),
    "the numbers of records are off by one": Broken(
        Fault("no record has the number between two blocks", r"a block of \d+ records begins at record \d+; expected"),
        "json",
        _around_blocks(JsonFormat, _off_by_one),
    ),
    "a block of another file is taken": Broken(
        Fault("rows of a file of which fastavro refuses the mark", _REFUSES), "avro", _any_mark, files=1_500
    ),
    "a value that does not fit its column is null": Broken(
        Fault("the record is a row without the value", r"record \d+: \w+ does not fit, and is None in a row"),
        "parquet",
        _misfit_is_null,
        files=1_500,
    ),
    "what the header of a page says is believed": Broken(
        Fault(
            "rows are missing, or a page takes gigabytes",
            r"an independent reader (refuses the file|finds \d+)|^takes \d{3,} MiB",
        ),
        "parquet",
        _as_it_says,
        files=2_500,
        first=2_230,
    ),
    "a file is whole up to its damage": Broken(
        Fault("rows of a file that is not well-formed", _REFUSES), "xml", _around_blocks(XmlFormat, _until_a_fault)
    ),
    "what is compressed is whole up to its damage": Broken(
        Fault("a row of a truncated file", r"an independent reader refuses the file: it is no whole"),
        "text",
        _whole_if_truncated,
    ),
    "an error of the library stays as it is": Broken(
        Fault("a damaged file fails the batch", r"^reading its blocks raised \w+"), "parquet", _uncaught
    ),
    "a file is dead without a reason": Broken(
        Fault("its dead letter says nothing", r"^the file is dead without a reason"),
        "text",
        _around_blocks(WholeTextFormat, _without_reason),
    ),
    "a record is refused without a reason": Broken(
        Fault("its dead letter says nothing", r"^a record is refused without a reason"), "xml", _refused_without_reason
    ),
    "a file says how much memory it takes": Broken(
        Fault("a length in a damaged file is believed", r"^takes \d{3,} MiB; expected"),
        "avro",
        _what_it_says,
        files=1_500,
    ),
    "a damaged file ends the process": Broken(
        Fault("the process that reads it dies by a signal", r"^the process that read it was ended by SIGSEGV"),
        "orc",
        _around_blocks(OrcFormat, _by_crash),
    ),
    "a damaged file is read for ever": Broken(
        Fault("its processor time has a bound", r"^it was not read within [0-9.]+ s of processor time"),
        "avro",
        _around_blocks(AvroFormat, _for_ever),
        secs=0.5,
    ),
    "the process that reads ORC takes what a file says": Broken(
        Fault("its memory has the bound of the file", r"^takes \d{3,} MiB; expected"),
        "orc",
        lambda: _by_orc_reader("greedy_orc_reader"),
    ),
    "the process that reads ORC is waited for without a limit": Broken(
        Fault("one that gets stuck is never ended", r"^it was not read within [0-9.]+ s$"),
        "orc",
        lambda: _by_orc_reader("stuck_orc_reader", waits_for_ever=True),
        hang_secs=10.0,
    ),
}
"""By name."""
