"""Zip files: their members are read one after the other, and one that cannot be read is one dead letter."""

import gzip
import io
import random
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from blizzard.state.dead_letters import Stage
from blizzard.storage.memory import MemoryStore
from spark_job.formats import zip_archive
from spark_job.formats.json.format import NdjsonFormat
from spark_job.formats.protocol import FileFault, Format, Limits
from spark_job.formats.zip_archive import ZipArchive
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from tests.unit.plain_lines import TEXT_SCHEMA
from tests.unit.task_world import LARGE, NOW_TS, Read, Task, numbered, read_one

DEFLATE, BZIP2, LZMA = zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA


class ZipTask(Task):
    """Its rows say which member they are from."""

    @property
    def origin(self) -> Provenance:
        return replace(super().origin, members=True)


def zipped(members: Mapping[str, bytes], method: int = DEFLATE) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return made.getvalue()


def read_zip(
    body: bytes, task_file: TaskFile | None = None, file_format: Format[Any] | None = None, **settings: Any
) -> Read:
    store = MemoryStore(lambda: NOW_TS)
    store.put("a.zip", body)
    return ZipTask(store, settings=settings, file_format=file_format).read([task_file or TaskFile("a.zip", len(body))])


def rows_of(found: Read) -> list[tuple[int, str | None, str]]:
    """Number, member and text."""
    return [(one["row"], one["member"], one["line"]) for one in found.records if one["fault"] is None]


def letters_of(found: Read) -> list[tuple[int, str | None, str]]:
    """Number, member and reason."""
    return [(one["row"], one["member"], one["fault"]) for one in found.records if one["fault"] is not None]


THREE = {"one.ndjson": b'{"n":1}\n{"n":2}\n', "in/two.ndjson": b'{"n":3}', "three.txt": b'{"n":4}\n'}
ROWS_OF_THREE = [
    (0, "one.ndjson", '{"n":1}'),
    (1, "one.ndjson", '{"n":2}'),
    (2, "in/two.ndjson", '{"n":3}'),
    (3, "three.txt", '{"n":4}'),
]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, DEFLATE, BZIP2])
def test_the_members_are_read_in_order_and_their_records_numbered_through(method: int) -> None:
    found = read_zip(zipped(THREE, method))
    assert rows_of(found) == ROWS_OF_THREE
    assert letters_of(found) == []
    assert (found.outcome.rows, found.outcome.records_read, found.outcome.finished) == (4, 4, True)


def test_folders_and_empty_members_have_no_records() -> None:
    assert rows_of(read_zip(zipped({"in/": b"", "empty": b"", **THREE}))) == ROWS_OF_THREE


def test_a_member_that_is_compressed_itself_is_decompressed() -> None:
    found = read_zip(zipped({"a.ndjson.gz": gzip.compress(b"x\n"), "b.ndjson": b"y\n"}))
    assert rows_of(found) == [(0, "a.ndjson.gz", "x"), (1, "b.ndjson", "y")]


def encrypted(body: bytes, name: bytes) -> bytes:
    """The flag alone: reading such a member stops before its bytes."""
    changed = bytearray(body)
    for signature, flags_at, name_at in ((b"PK\x03\x04", 6, 30), (b"PK\x01\x02", 8, 46)):
        at = next(
            at for at in range(len(body)) if body.startswith(signature, at) and body.startswith(name, at + name_at)
        )
        changed[at + flags_at] |= 1
    return bytes(changed)


def corrupt(body: bytes, content: bytes) -> bytes:
    """One byte of a stored member is another: only its checksum shows that."""
    assert body.count(content) == 1
    return body.replace(content, bytes([content[0] ^ 1]) + content[1:])


REFUSED = {
    "encrypted": (encrypted(zipped(THREE), b"in/two"), "in/two.ndjson", "it is encrypted"),
    "nested": (zipped({**THREE, "in/two.zip": zipped({"a": b"b"})}), "in/two.zip", "it is a zip itself"),
    "method": (zipped(THREE, LZMA), "one.ndjson", r"number 14 \(LZMA\); expected none, Deflate or bzip2"),
    "macos": (zipped({"__MACOSX/._one": b"\0\1", **THREE}), "__MACOSX/._one", "what macOS keeps"),
    "checksum": (corrupt(zipped(THREE, zipfile.ZIP_STORED), b'{"n":3}'), "in/two.ndjson", "Bad CRC-32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_member_that_cannot_be_read_is_one_dead_letter_and_the_others_are_rows(case: str) -> None:
    body, name, reason = REFUSED[case]
    found = read_zip(body)
    letters = letters_of(found)
    assert any(member == name and re.search(f"^member {name}: .*{reason}", fault) for _, member, fault in letters)
    refused = {member for _, member, _ in letters}
    assert [(member, text) for _, member, text in rows_of(found)] == [
        (member, text) for _, member, text in ROWS_OF_THREE if member not in refused
    ]
    numbers = sorted([row for row, _, _ in rows_of(found)] + [row for row, _, _ in letters])
    assert numbers == [*range(found.outcome.records_read)]


def test_a_bad_record_of_a_member_is_a_dead_letter_with_the_member_s_name() -> None:
    lines = [b'{"value":"x"}\n', b"[7]\n", b'{"value":"y"}\n', b'{"value":"z"}\n']
    body = zipped({"a": b"".join(lines[:3]), "b": lines[3]})
    found = read_zip(body, file_format=NdjsonFormat(TEXT_SCHEMA, Limits()))
    assert rows_of(found) == [(0, "a", "x"), (2, "a", "y"), (3, "b", "z")]
    ((number, member, _),) = letters_of(found)
    assert (number, member) == (1, "a")


def test_members_beyond_the_limit_of_a_file_are_refused() -> None:
    found = read_zip(zipped({"a": b"x\n", "bomb": bytes(5000), "c": b"y\n"}), limits=Limits(max_file_bytes=4000))
    assert rows_of(found) == [(0, "a", "x")]
    assert [member for _, member, _ in letters_of(found)] == ["bomb", "c"]
    assert "limit max_file_bytes: with the members before it, it holds more than 4000" in letters_of(found)[0][2]


def test_a_member_that_holds_more_than_its_directory_says_is_refused() -> None:
    """As a bomb would: the size is declared, and nothing beyond it is decompressed."""
    body = zipped({"a": b"x\n" * 3000})
    body = body.replace(struct.pack("<L", 6000), struct.pack("<L", 10))
    found = read_zip(body)
    assert rows_of(found) == []
    assert [member for _, member, _ in letters_of(found)] == ["a"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "File is not a zip file"),
        (b"PNG and more", "File is not a zip file"),
        (zipped(THREE)[:-30], "File is not a zip file"),
    ],
)
def test_a_file_that_is_no_zip_is_refused_as_a_whole(body: bytes, reason: str) -> None:
    found = read_zip(body)
    assert (found.records, found.outcome.stage) == ([], Stage.DECOMPRESS)
    assert found.outcome.error is not None
    assert re.search(f"^not a valid zip: .*{reason}", found.outcome.error)


def test_the_number_of_members_is_bounded_before_the_directory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archive, "MAX_MEMBERS", 2)
    with pytest.raises(FileFault, match="it is a zip of 3 members; at most 2 are read"):
        ZipArchive(io.BytesIO(zipped(THREE)), Limits())


def test_the_number_of_members_of_a_zip64_is_found() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(65_600):
            archive.writestr(f"{number}", b"")
    assert zip_archive._number_of_members(made) == 65_600


def test_a_zip_larger_than_a_batch_is_read_in_slices() -> None:
    members = {f"{name}.ndjson": numbered(6000, pad=300) for name in "abc"}
    members["b.ndjson"] = b""
    members["bad.zip"] = b""
    body = zipped(dict(sorted(members.items())))
    whole = read_zip(body)
    expected, skip, slices = rows_of(whole), 0, 0
    taken, letters = list[tuple[int, str | None, str]](), list[tuple[int, str | None, str]]()
    finished = False
    while not finished:
        part = read_zip(body, TaskFile("a.zip", len(body), skip_records=skip, slice_bytes=1 << 19))
        taken += rows_of(part)
        letters += letters_of(part)
        skip, finished = part.outcome.records_read, part.outcome.finished
        slices += 1
    assert taken == expected
    assert len(expected) == 12_000
    assert letters == letters_of(whole) != []
    assert slices == 3


def test_a_large_member_has_data_files_of_its_own() -> None:
    found = read_zip(zipped({"a": numbered(20_000, pad=200)}), **LARGE)
    assert len(rows_of(found)) == 20_000
    assert {member for _, member, _ in rows_of(found)} == {"a"}


def test_a_binary_source_reads_a_zip_only_if_it_says_so() -> None:
    assert ReadSettings("binary", "none").compressions().of("a.zip") == "none"
    assert ReadSettings("binary", "zip").compressions().of("a.dat") == "zip"
    assert ReadSettings("binary", "zip").compressions().of_member("a.zip", "b.gz") == "none"
    assert ReadSettings("csv").compressions().of_member("a.zip", "b.gz") == "gzip"


@pytest.mark.parametrize("seed", range(200))
def test_damage_is_refused_or_harmless(seed: int) -> None:
    chosen = random.Random(seed)
    body = bytearray(zipped(THREE, chosen.choice([zipfile.ZIP_STORED, DEFLATE, BZIP2])))
    for _ in range(chosen.randint(1, 3)):
        body[chosen.randrange(len(body))] ^= 1 << chosen.randrange(8)
    found = read_zip(bytes(body[: chosen.choice([len(body), chosen.randrange(len(body))])]))
    texts = {text for _, _, text in ROWS_OF_THREE}
    assert {text for _, _, text in rows_of(found)} <= texts


def test_a_file_that_is_no_zip_keeps_its_fields_of_source() -> None:
    found = read_one(b"x\n")
    assert "member" not in found.records[0]


def test_rows_of_other_files_of_the_batch_have_no_member() -> None:
    store = MemoryStore(lambda: NOW_TS)
    store.put("a.ndjson", b"x\n")
    store.put("b.zip", zipped({"m": b"y\n"}))
    found = ZipTask(store).read([TaskFile("a.ndjson", 2), TaskFile("b.zip", 200)])
    assert [(one["file"], one["member"], one["line"]) for one in found.records] == [
        ("a.ndjson", None, "x"),
        ("b.zip", "m", "y"),
    ]
