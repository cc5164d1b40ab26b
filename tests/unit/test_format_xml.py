"""XML: elements, attributes, text, and what is refused."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from lxml import etree

from spark_job.formats.protocol import FileFault, Limits
from tests.unit.format_reading import read_file


def read(ddl: str, stored: str | bytes, **options: Any) -> Any:
    data = stored.encode() if isinstance(stored, str) else stored
    return read_file("xml", ddl, data, **{"row_tag": "one", **options})


def test_attributes_children_arrays_structs_maps_and_text() -> None:
    stored = """<?xml version="1.0" encoding="UTF-8"?><all><!-- no record -->
      <one id="7"><name> é &amp; ü </name><tag>a</tag><tag>b</tag><price currency="EUR">1.50</price>
        <when>2026-11-21</when><more><x>1</x><y>2</y></more><other/></one>
      <one id="8"><name/><price/></one></all>"""
    ddl = """_id INT, name STRING, tag ARRAY<STRING>, price STRUCT<_currency: STRING, _VALUE: DECIMAL(5,2)>, when DATE,
      more MAP<STRING, INT>"""
    assert read(ddl, stored).values == [
        {
            "_id": 7,
            "name": "é & ü",
            "tag": ["a", "b"],
            "price": {"_currency": "EUR", "_VALUE": Decimal("1.50")},
            "when": date(2026, 11, 21),
            "more": {"x": 1, "y": 2},
        },
        {"_id": 8, "name": "", "tag": None, "price": {"_currency": None, "_VALUE": None}, "when": None, "more": None},
    ]


def test_blanks_are_those_of_xml_and_what_is_empty_is_null() -> None:
    stored = '<all><one a=" 5 " b=" x "><v>\u00a0y \n</v><m/></one><one a="" b=""/></all>'
    assert read("_a INT, _b STRING, v STRING, m MAP<STRING, INT>", stored).values == [
        {"_a": 5, "_b": "x", "v": "\u00a0y", "m": None},
        {"_a": None, "_b": "", "v": None, "m": None},
    ]


def test_a_record_inside_another_is_part_of_it() -> None:
    found = read("v INT, one STRUCT<v: INT>", "<all><one><v>1</v><one><v>2</v></one></one></all>")
    assert found.values == [{"v": 1, "one": {"v": 2}}]


def test_names_have_the_prefixes_that_the_file_writes() -> None:
    stored = '<all xmlns:x="urn:x"><x:one x:id="1"><x:v>1</x:v></x:one><one><v>2</v></one></all>'
    assert read("`x:v` INT, `_x:id` INT", stored, row_tag="x:one").values == [{"x:v": 1, "_x:id": 1}]
    assert [row["v"] for row in read("v INT, _id INT", stored, ignore_namespace=True).values] == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_the_encoding_is_the_one_that_the_file_declares(encoding: str) -> None:
    stored = f'<?xml version="1.0" encoding="{encoding}"?><all><one><v>é</v></one></all>'.encode(encoding)
    assert read("v STRING", stored).values == [{"v": "é"}]


def test_a_bad_record_keeps_its_number_and_text() -> None:
    bodies = ["<v>1</v>", "<v>x</v>", "<v>1</v><v>2</v>", "<v><w/></v>", "", "<v>6</v>"]
    found = read("v INT NOT NULL", "<all>" + "".join(f"<one>{body}</one>" for body in bodies) + "</all>")
    assert found.rows == {0: {"v": 1}, 5: {"v": 6}}
    assert found.reasons == {
        1: "v: the value does not fit int",
        2: "v: the element occurs twice; only an ARRAY takes several",
        3: "v: expected text for int, found the element w",
        4: "v: NOT NULL, but it is missing or null",
    }
    assert found.texts[2] == b"<one><v>1</v><v>2</v></one>"


@pytest.mark.parametrize(
    ("ddl", "body", "expected"),
    [
        ("_id ARRAY<STRING>, _VALUE ARRAY<INT>", '<one id="12">55</one>', {"_id": ["12"], "_VALUE": [55]}),
        ("_id ARRAY<STRING>", '<one id="1"><_id>2</_id></one>', {"_id": ["1", "2"]}),
        ("m MAP<STRING, ARRAY<INT>>", "<one><m><k>1</k><k>2</k></m></one>", {"m": {"k": [1, 2]}}),
        ("`_xml:lang` STRING", '<one xml:lang="de"/>', {"_xml:lang": "de"}),
        ("_id STRUCT<x: INT>, b INT", '<one id="1"><b>2</b></one>', "_id: expected an element for struct<x:int>"),
        ("m MAP<STRING, STRUCT<a: INT>>", '<one><m x="1"/></one>', "m{}: expected an element for struct<a:int>"),
    ],
)
def test_attributes_and_text_go_into_columns_of_any_type_or_the_record_is_refused(
    ddl: str, body: str, expected: Any
) -> None:
    found = read(ddl, f"<all>{body}</all>")
    if isinstance(expected, str):
        assert str(found.reasons[0]).startswith(expected)
    else:
        assert found.values == [expected]


def test_two_attributes_of_one_name_without_their_prefixes_refuse_the_record() -> None:
    stored = '<all xmlns:q="urn:q"><one q:id="1" id="2"/></all>'
    assert read("_id INT", stored, ignore_namespace=True).reasons == {
        0: "_id: two attributes have this name without their prefixes"
    }


@pytest.mark.parametrize("chunk_bytes", [1, 50, 1 << 20])
@pytest.mark.parametrize("first_record", [0, 1, 3, 5])
def test_reading_resumes_at_any_record(chunk_bytes: int, first_record: int) -> None:
    stored = "<all>" + "".join(f"<one><v>{n}</v></one>\n" for n in range(5)) + "</all>"
    found = read("v INT", stored, chunk_bytes=chunk_bytes, first_record=first_record)
    assert found.rows == {n: {"v": n} for n in range(first_record, 5)}


def test_records_with_as_many_levels_as_the_parser_reads_are_read() -> None:
    def nested(levels: int) -> bytes:
        return b"<one>" + b"<x>" * levels + b"</x>" * levels + b"</one>"

    levels = 1
    while _is_read(nested(levels + 1)):
        levels += 1
    assert levels > 200
    assert read("v STRING", nested(levels)).rows == {0: {"v": None}}
    with pytest.raises(FileFault, match=r"limit of the XML parser, after 0 records: .* more than 255 levels"):
        read("v STRING", nested(levels + 1))


@pytest.mark.parametrize("stored", ["<all><one><v>{}</v></one></all>", "<all><one v='{}'/></all>"])
def test_a_text_or_an_attribute_that_is_larger_than_the_parser_takes_is_told_as_that(stored: str) -> None:
    """libxml2 gives the record of an attribute first, and says of it only at the end that it was too large."""
    fits, too_much = (stored.format("x" * count) for count in (9_000_000, 12_000_000))
    [row] = read("v STRING, _v STRING", fits, limits=ROOMY).values
    assert {len(value) for value in row.values() if value} == {9_000_000}
    with pytest.raises(FileFault, match=r"limit of the XML parser, after . records: .* more than 10,000,000 bytes"):
        read("v STRING, _v STRING", too_much, limits=ROOMY)


def _is_read(stored: bytes) -> bool:
    try:
        etree.fromstring(stored)
    except etree.XMLSyntaxError:
        return False
    return True


def test_each_of_many_records_has_its_own_namespaces_and_unknown_names() -> None:
    bodies = ['<v xmlns="urn:a">1</v>', '<v xmlns:b="urn:b" b:w="2">2</v>', "<v>3</v>tail<w/>"] * 2_000
    found = read("v INT", "<all>" + "".join(f"<one>{body}</one>" for body in bodies) + "</all>")
    assert [row["v"] for row in found.values] == [1, 2, 3] * 2_000


ROOMY = Limits(max_record_bytes=64 << 20)
SECRET = '<!DOCTYPE all [<!ENTITY e SYSTEM "file:///etc/passwd">]><all><one><v>&e;</v></one></all>'
LAUGHS = '<!DOCTYPE all [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><all><one><v>&b;</v></one></all>'


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("", "not well-formed XML, after 0 records"),
        ("<all><one><v>1</v></one>", "not well-formed XML, after 1 records"),
        ("<all><one></all>", "not well-formed XML"),
        (b"\x89PNG", "not well-formed XML"),
        ('{"id": 1}', "not well-formed XML"),
        ("<html><body/></html>", "it has no element one, which `row_tag` names; its outermost element is html"),
        ("<error>Not found</error>", "it has no element one, which `row_tag` names; its outermost element is error"),
        (SECRET, "it declares the entity e; entities are not expanded"),
        ('<!DOCTYPE all SYSTEM "x.dtd"><all><one><v>&foo;</v></one></all>', "it refers to the entity &foo;"),
        (
            '<!DOCTYPE all SYSTEM "x.dtd"><all><one w="p&foo;q"/></all>',
            "it refers to the entity &foo;; entities are not",
        ),
        ('<!DOCTYPE all SYSTEM "x.dtd"><all><one/>&foo;<one/></all>', "it refers to the entity &foo;"),
        ('<!DOCTYPE all SYSTEM "x.dtd"><all><one/>&foo;</all>', "it refers to the entity &foo;"),
        ('<!DOCTYPE all SYSTEM "x.dtd"><all w="&foo;"/>', "it refers to the entity &foo;"),
        ("<all><one><v>&nbsp;</v></one></all>", "after 0 records: Entity 'nbsp' not defined, line 1, column "),
        ("<all><one/><one w='&nbsp;'/></all>", "after 1 records: Entity 'nbsp' not defined, line 1, column "),
        (LAUGHS, "it declares the entity a; entities are not expanded"),
        (
            "<all><one><v>" + "x" * 300_000 + "</v></one></all>",
            "limit max_record_bytes: no record ends within 4096 bytes",
        ),
        ("<all>" + "<x/>" * 100_000 + "</all>", "limit max_record_bytes: no record ends within 4096 bytes"),
    ],
)
def test_a_file_is_refused_with_a_reason(stored: str | bytes, reason: str) -> None:
    with pytest.raises(FileFault) as fault:
        read("v STRING", stored, limits=Limits(max_record_bytes=4_096))
    assert reason in fault.value.reason


def test_an_empty_outermost_element_is_a_file_without_records() -> None:
    assert read("v STRING", "<all/>").rows == {}


def test_a_document_type_without_entities_is_read() -> None:
    assert read("v STRING", '<!DOCTYPE all SYSTEM "all.dtd"><all><one><v>a</v></one></all>').values == [{"v": "a"}]
