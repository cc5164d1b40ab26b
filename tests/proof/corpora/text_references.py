"""JSON by Python's own module, and XML by expat: the schema is made of what is found."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.parsers import expat

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tests.proof.corpora.reference import NoReference, Reference
from tests.proof.formats.xml_oracle import Element, Tree

_NOTHING = StructType([StructField("nothing like it", StringType())])


def of_json(data: bytes) -> Reference:
    """Only what is an array or an object. Of its objects the members whose values have one type are compared; elements
    that are no objects, and text that is not Unicode, have to be refused."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoReference(str(error)) from error
    if not isinstance(value, list | dict):
        raise NoReference("it is neither an array nor an object")
    records = value if isinstance(value, list) else [value]
    good = [record for record in records if isinstance(record, dict) and _is_unicode(record)]
    schema = _json_struct(good)
    rows = [_chosen(record, schema) for record in good]
    return Reference(schema or _NOTHING, len(records), rows if schema else None, refused=len(records) - len(good))


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_struct(records: Sequence[Mapping[str, Any]]) -> StructType | None:
    """None if there is nothing to compare."""
    names = dict.fromkeys(name for record in records for name in record if name)
    types = {name: _json_type([record[name] for record in records if name in record]) for name in names}
    fields = [StructField(name, kind) for name, kind in types.items() if kind is not None]
    return StructType(fields) if fields else None


def _json_type(values: Sequence[Any]) -> DataType | None:
    """None if they have no type in common, or one that has no column."""
    some = [value for value in values if value is not None]
    if not some:
        return None
    if all(isinstance(value, str) for value in some):
        return StringType()
    if all(isinstance(value, bool) for value in some):
        return BooleanType()
    if all(type(value) is int and -(1 << 63) <= value < 1 << 63 for value in some):
        return LongType()
    if all(type(value) is float for value in some):
        return DoubleType()
    if all(isinstance(value, dict) for value in some):
        return _json_struct(some)
    if all(isinstance(value, list) for value in some):
        element = _json_type([inner for value in some for inner in value])
        return None if element is None else ArrayType(element)
    return None


def _chosen(value: Any, kind: DataType) -> Any:
    """What the columns have of it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _chosen(value.get(field.name), field.dataType) for field in kind}
    if isinstance(kind, ArrayType):
        return [_chosen(inner, kind.elementType) for inner in value]
    return value


def of_xml(data: bytes) -> Reference:
    """The records are the elements of the name that is the most frequent below the outermost one. Values are text."""
    tree, parser = Tree(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler = tree.text
    parser.buffer_text = True
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise NoReference(str(error)) from error
    names = [child.name for child in tree.root.children[0].children]
    if not names:
        raise NoReference("there is no element in the outermost one")
    tag = max(dict.fromkeys(names), key=names.count)
    records = [*_named(tree.root, tag)]
    schema = _xml_struct(records)
    rows = [_xml_fields(record, schema) for record in records]
    return Reference(schema if schema.fields else _NOTHING, len(records), rows, options={"row_tag": tag})


def _named(element: Element, tag: str) -> Iterable[Element]:
    for child in element.children:
        if child.name == tag:
            yield child
        else:
            yield from _named(child, tag)


def _parts(element: Element) -> dict[str, list[Any]]:
    """Attributes, child elements and text, by the names of their columns."""
    found: dict[str, list[Any]] = {}
    for name, value in element.attributes.items():
        if not name.startswith("xmlns"):
            found[f"_{name}"] = [value]
    for child in element.children:
        found.setdefault(child.name, []).append(child)
    if text := element.text.strip():
        found["_VALUE"] = [text]
    return found


def _xml_struct(elements: Sequence[Element]) -> StructType:
    parts = [_parts(element) for element in elements]
    names = dict.fromkeys(name for part in parts for name in part)
    return StructType([StructField(name, _xml_type([part.get(name, []) for part in parts])) for name in names])


def _xml_type(given: Sequence[Sequence[Any]]) -> DataType:
    """Of what the records have under one name."""
    elements = [one for some in given for one in some if isinstance(one, Element)]
    inner = any({*_parts(element)} - {"_VALUE"} for element in elements)
    kind: DataType = _xml_struct(elements) if inner else StringType()
    return ArrayType(kind) if any(len(some) > 1 for some in given) else kind


def _xml_fields(element: Element, schema: StructType) -> dict[str, Any]:
    parts = _parts(element)
    return {field.name: _xml_value(parts.get(field.name, []), field.dataType) for field in schema}


def _xml_value(given: Sequence[Any], kind: DataType) -> Any:
    if not given:
        return None
    if isinstance(kind, ArrayType):
        return [_xml_value([one], kind.elementType) for one in given]
    [one] = given
    if isinstance(kind, StructType):
        return _xml_fields(one, kind)
    return one.strip() if isinstance(one, str) else one.text.strip()
