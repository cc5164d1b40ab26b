"""What `blizzard init` counts in records of XML."""

from blizzard.config.format_options import XmlOptions
from blizzard.infer.ddl_text import ddl_of
from spark_job.infer.heads import read_heads
from spark_job.infer.observe import Reading, observe_heads
from tests.unit.strategies import memory_store


def test_of_xml_is_counted_how_many_records_have_a_repeated_or_nested_element_and_not_the_elements() -> None:
    data = b"""<o><r><tag>1</tag><tag>x</tag><at><y>1</y></at></r><r><tag>2</tag><line sku="c"/></r><r/>
        <r><line sku="a">1</line><line sku="b"/></r></o>"""
    store = memory_store()
    (head,) = read_heads(store, store.put("f", data), 1 << 20)
    sample = observe_heads(store, [head], Reading("xml", XmlOptions(row_tag="r").model_dump(mode="json")))
    assert ddl_of(sample.observed.schema().schema.columns, with_not_null=False) == (
        "tag ARRAY<STRING>, at STRUCT<y: BIGINT>, line ARRAY<STRUCT<_sku: STRING, _VALUE: BIGINT>>"
    )
    fields = sample.observed.fields
    assert {name: fields[name].values for name in ("tag", "at", "line")} == {"tag": 2, "at": 1, "line": 2}
    assert fields["tag"].examples == ["1", "x", "2"]
    assert {path: found for path, seen in fields.items() if (found := seen.conflicts())} == {
        "tag[]": {"BIGINT": 2, "STRING": 1}
    }
