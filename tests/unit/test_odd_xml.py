"""XML that is not as the schema says: each rule, against expectations written by hand."""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.kinds import kind_ddl
from tests.unit.config_files import problems, source_lines
from tests.unit.format_reading import Read, read_file
from tests.unit.odd_reading import RESCUE, columns, counts, rescued

SCHEMA = (
    "_id INT NOT NULL, name STRING, price DOUBLE, ship STRUCT<city: STRING, days: INT>, line ARRAY<STRUCT<sku: INT>>"
)


def xml(*records: str) -> bytes:
    return f"<orders>{''.join(records)}</orders>".encode()


def read(*records: str, schema: str = SCHEMA, rules: SchemaRules = RESCUE, **options: Any) -> Read:
    return read_file("xml", schema, xml(*records), rules=rules, row_tag="o", **options)


def test_a_record_that_is_as_the_schema_says_is_read_as_without_rules() -> None:
    record = '<o id="1"><name>a</name><price>1.5</price><ship><city>Ulm</city></ship><line><sku>1</sku></line></o>'
    plain = read_file("xml", SCHEMA, xml(record), row_tag="o").values
    found = read(record)
    assert columns(found) == plain
    assert rescued(found) == {0: None}
    assert (found.unknown, found.misfits) == ({}, {})


UNKNOWN = (
    '<o id="1" by="app"><name lang="de">a</name><coupon>SPRING</coupon><empty/>'
    "<tag>x</tag><tag>y</tag><gift to='Eva'><text>Hi</text> you</gift>"
    "<ship><city>Ulm</city><zip>89073</zip></ship>"
    "<line><sku>1</sku></line><line><sku>2</sku><color>red</color></line> loose</o>"
)
KEPT = {
    "_by": "app",
    "name._lang": "de",
    "coupon": "SPRING",
    "tag": ["x", "y"],
    "gift": {"_to": "Eva", "text": "Hi", "_VALUE": "you"},
    "ship.zip": "89073",
    "line[1].color": "red",
    "_VALUE": "loose",
}
ROW = {
    "_id": 1,
    "name": "a",
    "price": None,
    "ship": {"city": "Ulm", "days": None},
    "line": [{"sku": 1}, {"sku": 2}],
}
NAMES = {*KEPT} - {"line[1].color"} | {"line[].color"}


@pytest.mark.parametrize("new_fields", ["rescue", "add"])
def test_what_no_column_is_for_is_rescued(new_fields: str) -> None:
    found = read(UNKNOWN, '<o id="2"><coupon>X</coupon></o>', rules=SchemaRules(new_fields, "rescue"))
    assert columns(found)[0] == ROW
    assert rescued(found) == {0: KEPT, 1: {"coupon": "X"}}
    assert counts(found.unknown) == {**dict.fromkeys(NAMES, (1, 0)), "coupon": (2, 0)}


def test_what_no_column_is_for_is_counted_by_default() -> None:
    found = read(UNKNOWN, rules=SchemaRules(misfits="rescue"))
    assert columns(found) == [ROW]
    assert rescued(found) == {0: None}
    assert {*found.unknown} == NAMES | {"empty"}


def test_records_with_something_that_no_column_is_for_are_refused() -> None:
    found = read('<o id="1"><empty/></o>', UNKNOWN, rules=SchemaRules("dead_letter"))
    assert [*found.rows] == [0]
    assert found.texts == {1: UNKNOWN.replace("'", '"').encode()}
    assert str(found.reasons[1]).startswith(
        "no column is for _by, name._lang, coupon, tag, gift, ship.zip, line[].color"
    )


def test_the_types_of_what_no_column_is_for_are_told() -> None:
    record = (
        "<o id='1'><n>1</n><d>1.5</d><day>2026-11-21</day><at>2026-11-21 10:00:00</at><zip>10115</zip>"
        "<tag>1</tag><tag>x</tag><g a='1'><b>true</b></g><ship><n>7</n></ship></o>"
    )
    found = read(record, rules=SchemaRules("add", "rescue"))
    kinds = {name: kind_ddl(one.kind) for name, one in found.unknown.items() if one.kind is not None}
    assert kinds == {
        "n": "BIGINT",
        "d": "DOUBLE",
        "day": "DATE",
        "at": "TIMESTAMP",
        "zip": "STRING",
        "tag": "ARRAY<STRING>",
        "g": "STRUCT<_a: BIGINT, b: BOOLEAN>",
        "ship.n": "BIGINT",
    }


@pytest.mark.parametrize(
    ("record", "row", "kept"),
    [
        ("<price>cheap</price>", {"price": None}, {"price": "cheap"}),
        ("<price><net>1</net></price>", {"price": None}, {"price": {"net": "1"}}),
        ("<price>1</price><price>2</price>", {"price": None}, {"price": ["1", "2"]}),
        ("<name>a<b>c</b></name>", {"name": None}, {"name": {"b": "c", "_VALUE": "a"}}),
        (
            "<ship><city>Ulm</city><days>few</days></ship>",
            {"ship": {"city": "Ulm", "days": None}},
            {"ship.days": "few"},
        ),
        ("<ship><city>Ulm</city><days/></ship>", {"ship": {"city": "Ulm", "days": None}}, None),
        (
            "<ship><days>1</days></ship><ship><days>2</days></ship>",
            {"ship": None},
            {"ship": [{"days": "1"}, {"days": "2"}]},
        ),
        ("<line><sku>1</sku></line><line><sku>x</sku></line>", {"line": None}, {"line": [{"sku": "1"}, {"sku": "x"}]}),
        (
            "<line><sku>1</sku></line><line><sku>2</sku><sku>3</sku></line>",
            {"line": None},
            {"line": [{"sku": "1"}, {"sku": ["2", "3"]}]},
        ),
    ],
)
def test_a_value_that_does_not_fit_is_rescued(record: str, row: dict[str, Any], kept: Any) -> None:
    found = read(f'<o id="1">{record}</o>')
    assert columns(found) == [{**dict.fromkeys(("name", "price", "ship", "line")), "_id": 1, **row}]
    assert rescued(found) == {0: kept}
    assert counts(found.misfits) == ({} if kept is None else dict.fromkeys(kept, (1, 0)))
    refused = read(f'<o id="1">{record}</o>', rules=SchemaRules("rescue", "dead_letter"))
    assert [*refused.reasons] == ([] if kept is None else [0])


def test_a_value_that_does_not_fit_a_column_that_is_not_null_is_refused() -> None:
    found = read('<o id="x"><price>cheap</price></o>', "<o><name>a</name></o>", '<o id="3"/>')
    assert [*found.rows] == [2]
    assert [str(why).partition(":")[0] for why in found.reasons.values()] == ["_id", "_id"]
    assert found.misfits == {}
    nested = "s STRUCT<a: INT NOT NULL, b: INT> "
    found = read("<o><s><a>x</a><b>1</b></s></o>", schema=nested)
    assert (columns(found), rescued(found)) == ([{"s": None}], {0: {"s": {"a": "x", "b": "1"}}})


def test_maps_and_texts_beside_elements_are_taken_out_as_a_whole() -> None:
    schema = "m MAP<STRING, INT>, t STRUCT<_x: INT, _VALUE: INT>"
    found = read("<o><m><a>1</a><b>x</b></m><t x='1'>2<i/>b</t></o>", "<o><m a='1'/><t x='y'>2</t></o>", schema=schema)
    assert columns(found) == [
        {"m": None, "t": {"_x": 1, "_VALUE": None}},
        {"m": {"_a": 1}, "t": {"_x": None, "_VALUE": 2}},
    ]
    assert rescued(found) == {0: {"m": {"a": "1", "b": "x"}, "t._VALUE": "2b"}, 1: {"t._x": "y"}}


def test_the_types_that_a_column_would_need_are_told() -> None:
    found = read('<o id="1"><ship><days>3000000000</days></ship></o>', rules=SchemaRules("count", "widen"))
    assert {name: kind_ddl(one.kind) for name, one in found.misfits.items() if one.kind} == {"ship.days": "BIGINT"}


def test_names_in_another_case_fill_their_columns() -> None:
    record = (
        "<o ID='1' iD='2'><NAME>a</NAME><Ship><CITY>Ulm</CITY></Ship>"
        "<line><SKU>1</SKU></line><LINE><sku>2</sku></LINE></o>"
    )
    found = read(record, rules=SchemaRules("rescue", "rescue", "ignore_case"))
    assert columns(found) == [
        {"_id": 1, "name": "a", "price": None, "ship": {"city": "Ulm", "days": None}, "line": [{"sku": 1}]}
    ]
    assert rescued(found) == {0: {"_iD": "2", "LINE": {"sku": "2"}}}
    exact = read(record, rules=SchemaRules("rescue", "rescue"))
    assert [*exact.reasons] == [0]


def test_of_several_spellings_that_of_the_column_wins() -> None:
    rules = SchemaRules("rescue", "rescue", "ignore_case")
    found = read("<o id='1'><Name>b</Name><name/><NAME>c</NAME></o>", rules=rules)
    assert [row["name"] for row in columns(found)] == [""]
    assert rescued(found) == {0: {"Name": "b", "NAME": "c"}}


def test_names_with_prefixes_are_respelled_behind_them() -> None:
    schema = "`x:name` STRING, `_x:id` INT"
    stored = b"<a xmlns:x='urn:x'><o x:ID='1'><x:Name>a</x:Name></o></a>"
    found = read_file("xml", schema, stored, rules=SchemaRules(keys="ignore_case"), row_tag="o")
    assert found.values == [{"x:name": "a", "_x:id": 1}]


def test_columns_come_from_other_elements_and_attributes() -> None:
    rules = SchemaRules("rescue", "rescue", fields={"id": ("_key",), "city": ("ship", "city"), "skus": ("line",)})
    schema = "id INT, city STRING, skus ARRAY<STRUCT<sku: INT>>"
    record = "<o key='7'><ship><city>Ulm</city><zip>8</zip></ship><line><sku>x</sku></line><id>own</id></o>"
    found = read(record, schema=schema, rules=rules)
    assert columns(found) == [{"id": 7, "city": "Ulm", "skus": None}]
    assert rescued(found) == {0: {"ship.zip": "8", "id": "own", "line": [{"sku": "x"}]}}
    assert counts(found.misfits) == {"skus": (1, 0)}


def test_records_keep_their_numbers_among_others() -> None:
    found = read('<o id="1"/>', "<o/>", '<o id="3"><price>x</price></o>', '<o id="4"><a>b</a></o>')
    assert [*found.rows] == [0, 2, 3]
    assert rescued(found) == {0: None, 2: {"price": "x"}, 3: {"a": "b"}}
    assert counts(found.unknown) == {"a": (1, 3)}
    assert counts(found.misfits) == {"price": (1, 2)}


def test_fields_are_not_added_where_later_records_would_be_refused() -> None:
    lines = ("uri: s3://landing", "format: xml", "xml: {row_tag: o}", "schema: a INT", "new_fields: add")
    (found,) = problems(source_lines(*lines))
    assert "new_fields: found add with files of xml, which need `misfits: rescue` or `widen`" in found


# -- whatever a record holds


NAMES_OF_ELEMENTS = ("name", "Name", "ship", "city", "line", "sku", "m", "other", "x:y")
SCHEMA_OF_ALL = (
    "_id STRING, name STRING, ship STRUCT<city: STRING, _a: STRING, m: MAP<STRING, STRING>>, "
    "line ARRAY<STRUCT<sku: STRING, _VALUE: STRING>>, m MAP<STRING, ARRAY<STRING>>, _VALUE STRING"
)


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    """With texts and attributes that are counted through: see `numbered`."""
    name = draw(st.sampled_from(NAMES_OF_ELEMENTS))
    attributes = draw(st.lists(st.sampled_from(["id", "a", "A", "x:b"]), unique=True, max_size=2))
    inside = draw(st.lists(elements(depth - 1) if depth else st.just("#"), max_size=3))
    texts = draw(st.lists(st.sampled_from(["", "#"]), min_size=len(inside) + 1, max_size=len(inside) + 1))
    body = texts[0] + "".join(one + text for one, text in zip(inside, texts[1:], strict=True))
    listed = "".join(f" {one}='#'" for one in attributes)
    return f"<{name}{listed}>{body}</{name}>"


def numbered(records: list[str]) -> tuple[list[str], list[list[str]]]:
    """Each `#` becomes a text that is there once."""
    count = itertools.count()
    made, texts = [], []
    for record in records:
        found: list[str] = []
        made.append(re.sub("#", lambda _, found=found: found.append(f"t{next(count)}.") or found[-1], record))
        texts.append(found)
    return made, texts


@given(st.lists(st.lists(elements(), max_size=4), min_size=1, max_size=4), st.sampled_from(["exact", "ignore_case"]))
@settings(max_examples=60, deadline=None)
def test_each_text_is_in_a_column_or_rescued(records: list[list[str]], keys: str) -> None:
    lines, texts = numbered([f'<o xmlns:x="urn:x" id="#">{"".join(inside)}</o>' for inside in records])
    found = read(*lines, schema=SCHEMA_OF_ALL, rules=SchemaRules("rescue", "rescue", keys))
    assert found.reasons == {}
    for number, row in found.rows.items():
        shown = json.dumps(row, ensure_ascii=False)
        assert sorted(re.findall(r"t\d+\.", shown)) == sorted(texts[number])


def test_an_element_with_a_dot_has_another_place_than_one_inside() -> None:
    record = '<o id="1"><ship><zip>1</zip></ship><ship.zip>2</ship.zip><name l.m="x">a</name></o>'
    assert rescued(read(record)) == {0: {"ship.zip": "1", "`ship.zip`": "2", "name.`_l.m`": "x"}}
    counted = read(record, rules=SchemaRules())
    assert {*counted.unknown} == {"ship.zip", "`ship.zip`", "name.`_l.m`"}
