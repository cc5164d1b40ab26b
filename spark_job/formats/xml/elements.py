"""From an XML element to the values of a record, with text as leaves."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from lxml import etree
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from blizzard.config.field_places import in_place
from spark_job.formats.refusals import does_not_fit
from spark_job.formats.xml.rows import tag_of

ATTRIBUTE_PREFIX = "_"
VALUE = "_VALUE"
"""The field of a struct that takes the text of an element which has attributes or child elements, too."""


BLANKS = " \t\r\n"
"""XML's white space."""
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"


Fields = tuple[str, ...]
"""The names of fields of structs, from the record on, also of those in arrays and maps."""


class Misfit(Exception):
    """A record that does not fit the schema; its text is the reason. `fields`: where."""

    def __init__(self, reason: str, fields: Fields) -> None:
        super().__init__(reason)
        self.fields = fields


class RecordElements:
    """Reads records of one schema. Not shared by threads."""

    def __init__(self, schema: StructType, *, ignore_namespace: bool) -> None:
        self._reading = Reading(ignore_namespace)
        self._record = _Struct(schema, "", ())

    @property
    def unknown(self) -> set[str]:
        """Attributes and elements of the last record that no column is for."""
        return self._reading.unknown

    def values(self, element: "etree._Element") -> dict[str, Any]:
        """By column. Raises Misfit."""
        if self._reading.unknown:
            self._reading.unknown = set()
        return self._record.value(element, self._reading)


class Reading:
    """How names are read, and which were found in one record that no column is for."""

    def __init__(self, ignore_namespace: bool) -> None:
        self.ignore_namespace = ignore_namespace
        self.unknown: set[str] = set()

    def attribute_name(self, element: "etree._Element", name: str) -> str:
        """With the prefix of columns that are attributes. Of two prefixes of one namespace it may be either: which of
        them the file writes, lxml does not say."""
        if not name.startswith("{"):
            return ATTRIBUTE_PREFIX + name
        uri, _, local = name[1:].rpartition("}")
        prefix = None
        if not self.ignore_namespace:
            known = {XML_NAMESPACE: "xml"} | {of: prefix for prefix, of in element.nsmap.items() if prefix}
            prefix = known.get(uri)
        return f"{ATTRIBUTE_PREFIX}{prefix}:{local}" if prefix else ATTRIBUTE_PREFIX + local


class _Kind(ABC):
    """Reads the values of a data type at one place of the schema. `element`: of an array's elements, else None."""

    element: "_Kind | None" = None

    def __init__(self, data_type: DataType, path: str, fields: Fields) -> None:
        self.data_type = data_type
        self.path = path
        self.fields = fields

    @abstractmethod
    def value(self, element: "etree._Element", reading: Reading) -> Any:
        """Raises Misfit."""

    def of_text(self, text: str) -> Any:
        """Of an attribute, or of the text of an element that has other parts, too. Raises Misfit."""
        raise Misfit(f"{self.path}: expected an element for {self.data_type.simpleString()}, found text", self.fields)


class _Text(_Kind):
    """A type that is neither a struct, an array nor a map."""

    def value(self, element: "etree._Element", reading: Reading) -> str | None:
        if len(element):
            kind = self.data_type.simpleString()
            raise Misfit(f"{self.path}: expected text for {kind}, found the element {element[0].tag}", self.fields)
        for name in map(str, element.keys()):
            reading.unknown.add(f"{self.path}.{in_place(reading.attribute_name(element, name))}")
        return self.of_text(element.text or "")

    def of_text(self, text: str) -> str | None:
        bare = text.strip(BLANKS)
        return bare if bare or isinstance(self.data_type, StringType) else None


class _Struct(_Kind):
    def __init__(self, data_type: StructType, path: str, fields: Fields) -> None:
        super().__init__(data_type, path, fields)
        self._inner = f"{path}." if path else ""
        self._fields: Mapping[str, _Kind] = {
            field.name: _kind(field.dataType, f"{self._inner}{in_place(field.name)}", (*fields, field.name))
            for field in data_type
        }

    def value(self, element: "etree._Element", reading: Reading) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in element.items():
            column = reading.attribute_name(element, name)
            if column in found:
                why = f"{self._inner}{column}: two attributes have this name without their prefixes"
                raise Misfit(why, (*self.fields, column))
            if column in self._fields:
                found[column] = self._fields[column].of_text(value)
            else:
                reading.unknown.add(self._inner + in_place(column))
        has_tails = False
        for child in element:
            name = tag_of(child, ignore_namespace=reading.ignore_namespace)
            kind = self._fields.get(name)
            if kind is None:
                reading.unknown.add(self._inner + in_place(name))
            elif kind.element is not None:
                found.setdefault(name, []).append(kind.element.value(child, reading))
            elif name in found:
                raise Misfit(f"{kind.path}: the element occurs twice; only an ARRAY takes several", kind.fields)
            else:
                found[name] = kind.value(child, reading)
            has_tails = has_tails or child.tail is not None
        if text := own_text(element, has_tails=has_tails):
            if VALUE in self._fields:
                found[VALUE] = self._fields[VALUE].of_text(text)
            else:
                reading.unknown.add(self._inner + VALUE)
        return found


class _Array(_Kind):
    """Elements of one name. An array in an array has no form in XML."""

    def __init__(self, data_type: ArrayType, path: str, fields: Fields) -> None:
        super().__init__(data_type, path, fields)
        self.element = _kind(data_type.elementType, f"{path}[]", fields)

    def value(self, element: "etree._Element", reading: Reading) -> Any:
        raise Misfit(does_not_fit(self.path, self.data_type), self.fields)

    def of_text(self, text: str) -> Any:
        assert self.element is not None
        return [self.element.of_text(text)]


class _Map(_Kind):
    def __init__(self, data_type: MapType, path: str, fields: Fields) -> None:
        super().__init__(data_type, path, fields)
        self._value = _kind(data_type.valueType, f"{path}{{}}", fields)

    def value(self, element: "etree._Element", reading: Reading) -> list[tuple[str, Any]] | None:
        found: dict[str, Any] = {
            reading.attribute_name(element, name): self._value.of_text(value) for name, value in element.items()
        }
        if own_text(element, has_tails=True):
            reading.unknown.add(f"{self.path}.{VALUE}")
        of_array = self._value.element
        for child in element:
            name = tag_of(child, ignore_namespace=reading.ignore_namespace)
            if of_array is not None:
                found.setdefault(name, []).append(of_array.value(child, reading))
            elif name in found:
                raise Misfit(f"{self.path}: the element {name} occurs twice in a MAP", self.fields)
            else:
                found[name] = self._value.value(child, reading)
        return [*found.items()] or None


def _kind(data_type: DataType, path: str, fields: Fields) -> _Kind:
    if isinstance(data_type, StructType):
        return _Struct(data_type, path, fields)
    if isinstance(data_type, ArrayType):
        return _Array(data_type, path, fields)
    return _Map(data_type, path, fields) if isinstance(data_type, MapType) else _Text(data_type, path, fields)


def own_text(element: "etree._Element", *, has_tails: bool) -> str:
    """The text between the child elements."""
    text = element.text or ""
    return ("".join([text, *(child.tail or "" for child in element)]) if has_tails else text).strip(BLANKS)
