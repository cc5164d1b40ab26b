"""JSON: where records begin and end, in arrays, inside objects, and one after the other."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_job.formats.json.separated_objects import FoundObjects, SeparatedObjects
from spark_job.formats.json.structure import Structure
from spark_job.formats.json.values import ValueSplitter
from spark_job.formats.protocol import FileFault, Limits
from tests.unit.format_reading import read_file

CHUNKS = (1, 2, 7, 1 << 20)
every_chunk = pytest.mark.parametrize("chunk_bytes", CHUNKS)


def read(stored: bytes, **options: Any) -> Any:
    return read_file("json", "id INT, s STRING", stored, **options)


@every_chunk
@pytest.mark.parametrize(
    "stored",
    [
        b'[{"id":1},{"id":2}]',
        b'\xef\xbb\xbf [ {"id":1} ,\r\n {"id"\n: 2} ] \n',
        b'{"id":1}{"id":2}',
        b'{"id":1}\n\n{\n"id":2}\n',
    ],
)
def test_an_array_and_objects_that_follow_each_other(stored: bytes, chunk_bytes: int) -> None:
    assert [row["id"] for row in read(stored, chunk_bytes=chunk_bytes).values] == [1, 2]


@every_chunk
def test_a_bad_element_keeps_its_number_and_text(chunk_bytes: int) -> None:
    stored = b'[{"id":1},{"id":"x"},17,"a,b]",null,[1],{"id":},{"s":"a\nb"},{"id":1],{"id":9}]'
    found = read(stored, chunk_bytes=chunk_bytes)
    assert {number: row["id"] for number, row in found.rows.items()} == {0: 1, 9: 9}
    assert found.reasons[1] == "id: the value does not fit int"
    assert [found.reasons[number] for number in (2, 3, 4, 5)] == [
        f"expected a JSON object, found {kind}" for kind in ("a number", "a string", "null", "an array")
    ]
    assert found.reasons[7] == "not JSON: a line end in a string; expected \\n"
    assert all(str(found.reasons[number]).startswith("not JSON: ") for number in (6, 8))
    assert found.texts[3] == b'"a,b]"'


@every_chunk
@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "it is empty; expected an array of objects, or objects"),
        (b"<html>", "it begins with '<"),
        (b'[{"id":1}', "truncated: its array does not end after value 0"),
        (b'[{"id":1', "truncated: it ends within value 0"),
        (b'[{"id":"', "truncated: it ends within value 0"),
        (b"[", "truncated"),
        (b"[ }", "after 0 values: its array ends with a brace"),
        (b'[{"id":1}}', "after 1 values: its array ends with a brace"),
        (b'[{"id":1},]', "after 1 values of its array: found ','; expected one comma between two values"),
        (b'[,{"id":1}]', "after 0 values of its array"),
        (b'[{"id":1} {"id":2}]', "after 1 values of its array: found nothing; expected one comma"),
        (b'[{"id":1},,{"id":2}]', "expected one comma between two values"),
        (b'[{"id":1}x,{"id":2}]', "expected one comma between two values"),
        (b"[1 2]", "expected one comma between two values"),
        (b"[nul]", "expected one comma between two values"),
        (b'[{"id":1},\xef\xbb\xbf7,{"id":2}]', "expected one comma between two values"),
        (b'[{"id":1}] {"id":2}', "after the end of its array"),
        (b'{"id":1},{"id":2}', "after 1 values: found ',', expected an object"),
        (b'{"id":1}}', "a brace or bracket is closed that was not opened"),
        (b'{"id":1}{"id":', "truncated: it ends within value 1"),
        (b'{"id":\xff}', "not utf-8: at byte 6"),
        (b'{"id":\0}', "it holds NUL bytes"),
        ('[{"id":1}]'.encode("utf-16"), "not utf-8: at byte 0"),
    ],
)
def test_a_file_is_refused_with_a_reason(stored: bytes, reason: str, chunk_bytes: int) -> None:
    with pytest.raises(FileFault) as fault:
        read(stored, chunk_bytes=chunk_bytes)
    assert reason in fault.value.reason


@every_chunk
def test_records_may_be_inside_an_object(chunk_bytes: int) -> None:
    stored = b'{"n":{"a":[{"id":7}]},"s":"]}{\\"","d":{"x":[],"items":[{"id":1},{"id":2}],"y":{}},"z":-1e3}\n'
    assert [row["id"] for row in read(stored, records="d.items", chunk_bytes=chunk_bytes).values] == [1, 2]


@every_chunk
@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b'{"d":{"items":null}}', "expected an array of records at d.items, found 'null'"),
        (b'{"d":[1]}', "expected an object at d, found '['"),
        (b'{"d":{"other":[]}}', "it has no d.items, where `records` looks for the records"),
        (b"{}", "it has no d"),
        (b'[{"id":1}]', "expected an object, found '['"),
        (b'{"d":{"items":[]},"d":1}', "it has d twice"),
        (b'{"d":{"items":[],"items":[{"id":1}]}}', "it has d.items twice"),
        (b'{"d":{"items":[]}', "expected a comma between two members, found the end of the file"),
        (b'{"d":{"items":[],}}', "expected the name of a member after a comma, found '}'"),
        (b'{"d":{"items":[]},}', "expected the name of a member after a comma, found '}'"),
        (b'{"d":{"items":[]}} x', "not JSON: found 'x' after its end"),
        (b"<html>", "not JSON: expected an object, found '<html>'"),
        (b'{"x":nonsense,"d":{"items":[]}}', "expected a value, found 'nonsense'"),
        (b'{"x":{,},"d":{"items":[]}}', "expected the name of a member, found ','"),
        (b'{"x":[1 2],"d":{"items":[]}}', "expected a comma between two values, found '2'"),
        (b'{"x":[1,],"d":{"items":[]}}', "expected another value after a comma"),
        (b'{"x":[1},"d":{"items":[]}}', "expected a comma between two values, found '}'"),
        (b'{"d":{"items":[]},}', "expected the name of a member after a comma"),
        (b'{"d" {"items":[]}}', "expected a colon"),
        (b'{"d":{"items":[]},"e":"', "truncated: it ends within a string"),
        (b'{"d":{"items":[{"id":1}', "truncated: its array does not end"),
        (b"", "expected an object, found the end of the file"),
    ],
)
def test_a_file_without_records_at_their_place_is_refused(stored: bytes, reason: str, chunk_bytes: int) -> None:
    with pytest.raises(FileFault) as fault:
        read(stored, records="d.items", chunk_bytes=chunk_bytes)
    assert reason in fault.value.reason


@pytest.mark.parametrize(
    "stored", ['{"error":"busy"}', "[]", '{"d":1}', '{"d":{"items":{}}}', '{"d":{"items":[]},"d":1}']
)
def test_a_file_of_json_without_records_at_their_place_is_not_called_no_json(stored: str) -> None:
    with pytest.raises(FileFault) as fault:
        read(stored.encode(), records="d.items")
    assert "not JSON" not in fault.value.reason


def test_a_member_that_is_skipped_may_be_nested_deeply() -> None:
    stored = b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b',"d":{"items":[{"id":1}]}}'
    assert [row["id"] for row in read(stored, records="d.items").values] == [1]


def test_a_value_above_the_limit_refuses_the_file() -> None:
    stored = b'[{"s":"' + b"x" * 5_000 + b'"}]'
    for chunk_bytes in (512, 1 << 20):
        with pytest.raises(FileFault, match=r"limit max_record_bytes: value 0 has more than 4096 bytes"):
            read(stored, limits=Limits(max_record_bytes=4_096), chunk_bytes=chunk_bytes)


def test_a_long_array_without_an_object_is_refused_for_what_it_is() -> None:
    stored = b"[" + b"1," * 5_000 + b"1]"
    with pytest.raises(FileFault, match="not JSON: after 0 values: more than 4096 bytes without an object, as '1,1,1,"):
        read(stored, limits=Limits(max_record_bytes=4_096), chunk_bytes=512)


@pytest.mark.parametrize("gap", [b",", b", ", b" ,  "])
def test_objects_of_an_array_are_divided_at_once_whatever_is_inside_of_them(gap: bytes) -> None:
    objects = [
        b'{"id":1,"s":"}' + gap + b'{"}',
        b'{"id":2,"other":[{"a":1}' + gap + b'{"a":2}]}',
        rb'{"id":3,"s":"\\\"}' + gap + rb'{\\"}',
        b'{"id":4}',
    ]
    text = gap.join(objects)
    divided = SeparatedObjects(in_array=True).first_of(text + b" ]")
    assert divided == FoundObjects(b"\n".join(objects), len(text), 4)
    assert [row["id"] for row in read(b"[" + text + b"]", chunk_bytes=1 << 20).values] == [1, 2, 3, 4]


@pytest.mark.parametrize(("in_array", "gap"), [(True, b"\n,\r\n\t"), (False, b"\r\n"), (False, b"")])
def test_objects_with_line_ends_are_divided_at_once(*, in_array: bool, gap: bytes) -> None:
    objects = [b'{"id":1,\n"a":{"b":[{},{}]}}', b'{"id":2}', b'{\r"id":3}']
    text = gap.join(objects)
    divided = SeparatedObjects(in_array=in_array).first_of(text)
    assert divided == FoundObjects(b'{"id":1, "a":{"b":[{},{}]}}\n{"id":2}\n{ "id":3}', len(text), 3)


@pytest.mark.parametrize("gap", [b"", b",,", b",1,", b",[],", b",\n", b"}", b"]", b'"', b"\\"])
def test_anything_else_between_two_objects_takes_a_closer_look(gap: bytes) -> None:
    good = b'{"id":1},{"id":2}'
    divided = SeparatedObjects(in_array=True).first_of(good + gap + b'{"id":3},{"id":4}]')
    assert divided is None or (divided.text, divided.size) == (b'{"id":1}', 8)


@pytest.mark.parametrize("bad", [b'{"s":"a\nb"}', b'{"s":1', b'{"s":1}}', b'{"s":[1}', b'{"s":"}', b"{\\}"])
def test_an_object_that_takes_a_closer_look_is_not_among_those_divided_at_once(bad: bytes) -> None:
    divided = SeparatedObjects(in_array=True).first_of(b'{"id":1},{"id":2},' + bad + b",{}]")
    assert divided is None or b"s" not in divided.text


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (b'[{"id":1\\},{"id":2}},{"id":3}]', {0: "not JSON: "}),
        (b'[{"id":1},\n{\x01"id":2},\n{"id":3}]', {1: "not JSON: "}),
        (b'[{"id":1},\n{"s":"\x01"},\n{"id":3}]', {1: "not JSON: "}),
    ],
)
def test_odd_bytes_do_not_become_others(text: bytes, reasons: dict[int, str]) -> None:
    found = read(text, chunk_bytes=1 << 20)
    assert found.reasons.keys() == reasons.keys()
    assert all(str(found.reasons[number]).startswith(begin) for number, begin in reasons.items())


def test_a_text_without_an_object_is_not_divided_at_once() -> None:
    objects = SeparatedObjects(in_array=True)
    assert [objects.first_of(text) for text in (b"", b"1", b"[{}]", b"{", b'{"a":"\x01"},{}')] == [None] * 5


def test_more_levels_than_16_bits_count() -> None:
    deep = b'{"id":1,"other":' + b"[" * 70_000 + b"]" * 70_000 + b"}"
    structure = Structure(1)
    assert structure.marks(deep[:50_000]).ends == []
    marks = structure.marks(deep[50_000:] + b",{}]")
    assert marks.ends == [len(deep) - 50_001, len(deep) - 50_000 + 2]
    assert marks.outer_end == len(deep) - 50_000 + 3


STRINGS = st.text(st.sampled_from('ab{}[]",:\\\n\u00e9\U0001f600 '), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.fixed_dictionaries({"s": STRINGS, "other": VALUES}), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    records=RECORDS,
    indent=st.sampled_from([None, 0, 1]),
    ascii_only=st.booleans(),
    in_array=st.booleans(),
    chunk_bytes=st.integers(1, 60) | st.just(1 << 20),
    first_record=st.integers(0, 6),
)
def test_what_was_written_is_read(
    records: list[dict[str, Any]],
    indent: int | None,
    ascii_only: bool,
    in_array: bool,
    chunk_bytes: int,
    first_record: int,
) -> None:
    def text(value: Any) -> str:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    stored = text(records) if in_array or not records else "".join(map(text, records))
    found = read(stored.encode(), chunk_bytes=chunk_bytes, first_record=first_record)
    expected = {number: one["s"] for number, one in enumerate(records) if number >= first_record}
    assert {number: row["s"] for number, row in found.rows.items()} == expected
    assert found.reasons == {}


class ClosestLook(SeparatedObjects):
    """Finds nothing."""

    def first_of(self, text: bytes) -> FoundObjects | None:
        return None


def split(pieces: list[bytes], splitter: ValueSplitter) -> tuple[list[bytes], dict[int, str], bytes | str]:
    """The values, why some are broken, and what follows them; the last is the reason if the text is refused."""
    values, broken = list[bytes](), dict[int, str]()
    try:
        for at, piece in enumerate([*pieces, None]):
            found = splitter.finish() if piece is None else splitter.split(piece)
            broken |= {len(values) + number: why for number, why in found.broken.items()}
            values += found.records() if found.count else []
            if splitter.rest is not None:
                return values, broken, splitter.rest + b"".join(pieces[at + 1 :])
    except FileFault as fault:
        return values, broken, fault.reason
    return values, broken, b""


def splitter_of(objects: SeparatedObjects, *, in_array: bool) -> ValueSplitter:
    return ValueSplitter(Limits(), objects, in_array=in_array)


SHARED = {in_array: SeparatedObjects(in_array=in_array) for in_array in (True, False)}
"""By all texts, as by the files of a format."""
TOKENS = st.sampled_from(
    [
        b'{"a":1}',
        b",",
        b'{"b":[{},{}]}',
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b" ",
        b"\n",
        b"\x01",
        b'"x"',
        b"7",
        b":",
        b"},{",
        b"}{",
    ]
)


@settings(max_examples=1_000, deadline=None)
@given(
    texts=st.lists(st.lists(TOKENS, max_size=12).map(b"".join), max_size=4),
    begin=st.sampled_from([b"", b'{"a":1},{"a":2},', b'{"a":1}{"a":2}\n', b'{"a":1}, {"a":[{"b":1}, {"b":2}]}, ']),
    in_array=st.booleans(),
    chunk_bytes=st.integers(1, 60),
)
def test_damage_is_found_as_by_the_closest_look(
    texts: list[bytes], begin: bytes, in_array: bool, chunk_bytes: int
) -> None:
    text = begin.join(texts)
    pieces = [text[at : at + chunk_bytes] for at in range(0, len(text), chunk_bytes)]
    values, broken, after = split(
        [text] if text else [], splitter_of(ClosestLook(in_array=in_array), in_array=in_array)
    )
    found = split(pieces, splitter_of(SHARED[in_array], in_array=in_array))
    if isinstance(after, bytes):
        assert found == (values, broken, after)
    else:
        assert found[2] == after
