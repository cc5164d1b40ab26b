"""From an XML element to the values of a record, with text as leaves."""

from typing import Any

from lxml import etree
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from spark_job.formats.refusals import does_not_fit
from spark_job.formats.xml.rows import tag_of

ATTRIBUTE_PREFIX = "_"
VALUE = "_VALUE"
"""The field of a struct that takes the text of an element which has attributes or child elements, too."""

_BLANKS = " \t\r\n"
"""White space as XML defines it."""


class Misfit(Exception):
    """A record that does not fit the schema; its text is the reason."""


class RecordElement:
    """Reads one record. `unknown`: its attributes and elements that no column is for."""

    def __init__(self, *, ignore_namespace: bool) -> None:
        self._ignore_namespace = ignore_namespace
        self.unknown: set[str] = set()

    def values(self, element: "etree._Element", schema: StructType, path: str = "") -> dict[str, Any]:
        """By column. Raises Misfit."""
        found: dict[str, Any] = {}
        for name, value in element.attrib.items():
            column = ATTRIBUTE_PREFIX + self._attribute_name(element, name)
            if column in schema.names:
                found[column] = _text_for(value, schema[column].dataType)
            else:
                self.unknown.add(path + column)
        for child in element:
            name = tag_of(child, ignore_namespace=self._ignore_namespace)
            if name in schema.names:
                self._add(found, child, name, schema[name].dataType, path)
            else:
                self.unknown.add(path + name)
        if text := _own_text(element):
            if VALUE in schema.names:
                found[VALUE] = text
            else:
                self.unknown.add(path + VALUE)
        return found

    def _attribute_name(self, element: "etree._Element", name: str) -> str:
        qualified = etree.QName(name)
        if qualified.namespace is None or self._ignore_namespace:
            return str(qualified.localname)
        prefix = next((known for known, uri in element.nsmap.items() if known and uri == qualified.namespace), None)
        return f"{prefix}:{qualified.localname}" if prefix else str(qualified.localname)

    def _add(self, found: dict[str, Any], child: "etree._Element", name: str, data_type: DataType, path: str) -> None:
        place = f"{path}{name}"
        if isinstance(data_type, ArrayType):
            found.setdefault(name, []).append(self._value(child, data_type.elementType, f"{place}[]"))
        elif name in found:
            raise Misfit(f"{place}: the element occurs twice; only an ARRAY takes several")
        else:
            found[name] = self._value(child, data_type, place)

    def _value(self, element: "etree._Element", data_type: DataType, path: str) -> Any:
        if isinstance(data_type, StructType):
            return self.values(element, data_type, f"{path}.")
        if isinstance(data_type, MapType):
            return self._map(element, data_type, path)
        if isinstance(data_type, ArrayType):
            raise Misfit(does_not_fit(path, data_type))
        if len(element):
            raise Misfit(f"{path}: expected text for {data_type.simpleString()}, found the element {element[0].tag}")
        self.unknown.update(
            f"{path}.{ATTRIBUTE_PREFIX}{self._attribute_name(element, name)}" for name in element.attrib
        )
        return _text_for(element.text or "", data_type)

    def _map(self, element: "etree._Element", data_type: MapType, path: str) -> list[tuple[str, Any]] | None:
        found: dict[str, Any] = {
            ATTRIBUTE_PREFIX + self._attribute_name(element, name): _text_for(value, data_type.valueType)
            for name, value in element.attrib.items()
        }
        for child in element:
            name = tag_of(child, ignore_namespace=self._ignore_namespace)
            if name in found:
                raise Misfit(f"{path}: the element {name} occurs twice in a MAP")
            found[name] = self._value(child, data_type.valueType, f"{path}{{}}")
        return [*found.items()] or None


def _text_for(text: str, data_type: DataType) -> str | None:
    bare = text.strip(_BLANKS)
    return bare if bare or isinstance(data_type, StringType) else None


def _own_text(element: "etree._Element") -> str:
    """The text between the child elements."""
    return "".join([element.text or "", *(child.tail or "" for child in element)]).strip(_BLANKS)
