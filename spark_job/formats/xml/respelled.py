"""`keys: ignore_case` for XML: names of attributes and elements, spelled like the columns that differ in case only."""

from collections.abc import Mapping

from lxml import etree
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spark_job.formats.odd_columns import respelled_names
from spark_job.formats.xml.elements import VALUE, Reading
from spark_job.formats.xml.rows import tag_of


def respell(element: "etree._Element", data_type: DataType, names: Reading) -> None:
    """At any depth. Changes the element. A name with a prefix stays if the prefix is what differs."""
    match data_type:
        case StructType():
            _respell(element, data_type, names)
            for child in element:
                name = tag_of(child, ignore_namespace=names.ignore_namespace)
                if name in data_type.names:
                    _respell_one(child, data_type[name].dataType, names)
        case MapType():
            for child in element:
                _respell_one(child, data_type.valueType, names)


def _respell_one(element: "etree._Element", data_type: DataType, names: Reading) -> None:
    respell(element, data_type.elementType if isinstance(data_type, ArrayType) else data_type, names)


def _respell(element: "etree._Element", schema: StructType, names: Reading) -> None:
    attributes = {raw: names.attribute_name(element, raw) for raw in map(str, element.keys())}
    children = [(child, tag_of(child, ignore_namespace=names.ignore_namespace)) for child in element]
    found = list(dict.fromkeys([*attributes.values(), *(name for _, name in children)]))
    columns = [name for name in schema.names if name != VALUE]
    spelled = dict(zip(found, respelled_names(found, columns), strict=True))
    for raw, name in attributes.items():
        if (again := _again(raw, name, spelled)) != raw:
            element.set(again, element.attrib.pop(raw))
    for child, name in children:
        child.tag = _again(child.tag, name, spelled)


def _again(tag: str, name: str, spelled: Mapping[str, str]) -> str:
    """The tag, as lxml has it, of a name that is spelled otherwise."""
    local = tag.rpartition("}")[2]
    wanted = spelled[name]
    prefix = len(name) - len(local)
    return tag if wanted[:prefix] != name[:prefix] else tag[: len(tag) - len(local)] + wanted[prefix:]
