"""Formats in which a file is one record: `binary`, and `text` with `whole`."""

import pytest

from spark_job.formats.protocol import FileFault, Limits
from tests.unit.format_reading import read_file

BINARY = "content BINARY, length BIGINT"


@pytest.mark.parametrize("stored", [b"", b"\x89PNG\r\n\0\xff", b"x" * 10_000])
def test_a_binary_file_is_one_record(stored: bytes) -> None:
    for chunk_bytes in (1, 1 << 20):
        found = read_file("binary", BINARY, stored, chunk_bytes=chunk_bytes)
        assert found.rows == {0: {"content": stored, "length": len(stored)}}


def test_a_text_file_is_one_record_with_its_line_ends() -> None:
    stored = "\ufeffé\r\nb\n".encode()
    assert read_file("text", "value STRING", stored, whole=True).values == [{"value": "é\r\nb\n"}]
    assert read_file("text", "value STRING", b"", whole=True).values == [{"value": ""}]
    assert [row["value"] for row in read_file("text", "value STRING", stored).values] == ["é", "b"]


@pytest.mark.parametrize(("name", "ddl"), [("binary", BINARY), ("text", "value STRING")])
def test_a_file_above_the_limit_is_refused(name: str, ddl: str) -> None:
    options = {"whole": True} if name == "text" else {}
    limits = Limits(max_record_bytes=10)
    assert len(read_file(name, ddl, b"x" * 10, limits=limits, **options).rows) == 1
    with pytest.raises(FileFault, match="limit max_record_bytes: the file is one record, and holds more than 10 bytes"):
        read_file(name, ddl, b"x" * 11, limits=limits, **options)


def test_a_text_file_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FileFault, match="not UTF-8 at byte 1: invalid start byte"):
        read_file("text", "value STRING", b"a\xff", whole=True)


@pytest.mark.parametrize(("name", "ddl"), [("binary", BINARY), ("text", "value STRING")])
def test_a_file_that_was_read_is_not_read_again(name: str, ddl: str) -> None:
    options = {"whole": True} if name == "text" else {}
    assert read_file(name, ddl, b"a", first_record=1, **options).rows == {}
