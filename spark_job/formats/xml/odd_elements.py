"""Records of XML that are not as the schema says: what no column is for, and what does not fit, is taken out of the
element, so that the rest of it can be read."""

from collections.abc import Iterator, Sequence
from typing import Any

from lxml import etree
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from blizzard.config.ddl import Type
from blizzard.config.field_places import in_place, names_in, place_of
from blizzard.config.schema_rules import SchemaRules
from blizzard.infer.text import TextForms, names_codes
from blizzard.infer.types import STRING, VOID
from blizzard.infer.values import type_of
from spark_job.formats.kinds import kind_beside, kind_of_text
from spark_job.formats.odd_data import OddRecord, OddValue
from spark_job.formats.xml.elements import BLANKS, VALUE, Fields, Misfit, Reading, RecordElements, own_text
from spark_job.formats.xml.respelled import respell
from spark_job.formats.xml.rows import tag_of


class OddElements:
    """Reads records of one schema by these rules. `forms`: of texts. Not shared by threads."""

    def __init__(self, schema: StructType, rules: SchemaRules, *, ignore_namespace: bool, forms: TextForms) -> None:
        self._schema = schema
        self._rules = rules
        self._names = Reading(ignore_namespace)
        self._read = RecordElements(schema, ignore_namespace=ignore_namespace)
        self._forms = forms
        self._tells = rules.tells_field_kinds or rules.tells_misfit_kinds

    @property
    def unknown(self) -> set[str]:
        """Attributes and elements of the last record that no column is for, and that the rules leave in it."""
        return self._read.unknown

    def values(self, element: "etree._Element", text: bytes) -> tuple[dict[str, Any], OddRecord]:
        """By column, and what was taken out. Changes the element. `text`: the record. Raises Misfit."""
        odd = OddRecord(text=text)
        if self._rules.ignores_case:
            respell(element, self._schema, self._names)
        if self._rules.looks_at_fields:
            odd.unknown = [
                OddValue(name, place, value, self._kind_of(names_in(name)[-1], value))
                for name, place, value in self._unknown(element, self._schema, "", "")
            ]
        while True:
            try:
                return self._read.values(element), odd
            except Misfit as misfit:
                path = nearest_nullable(self._schema, misfit.fields) if self._rules.rescues_misfits else None
                values = [] if path is None else self._taken_out(element, path)
                if path is None or not values:
                    raise
                is_one = len(values) == 1 and not isinstance(_type_at(self._schema, path), ArrayType)
                odd.misfits.append(self.misfit(path, values[0] if is_one else values))

    def misfit(self, path: Fields, value: Any) -> OddValue:
        """A value that does not fit the field at this path."""
        name = place_of(path)
        return OddValue(name, name, value, self._kind_of(path[-1], value, _type_at(self._schema, path)))

    def _kind_of(self, name: str, value: Any, wanted: DataType | None = None) -> Type | None:
        """`wanted`: of the field that it does not fit. None: nobody asks for it."""
        if not self._tells:
            return None
        if isinstance(value, str) and names_codes(name):
            return STRING
        return self._kind(value) if wanted is None else kind_beside(value, wanted, self._kind)

    def _kind(self, value: Any, wanted: DataType | None = None) -> Type:
        return type_of(value, text=lambda text: kind_of_text(text, self._forms, wanted) if text else VOID)

    # -- what no column is for

    def _unknown(
        self, element: "etree._Element", schema: StructType, name: str, place: str
    ) -> Iterator[tuple[str, str, Any]]:
        """Names, places and values, which are taken out. An element without anything in it has no value."""
        for attribute, value in self._attributes(element):
            if attribute not in schema.names:
                self._remove_attribute(element, attribute)
                if value:
                    yield name + in_place(attribute), place + in_place(attribute), value
        for key, children in self._children(element).items():
            shown = in_place(key)
            if key in schema.names:
                yield from self._unknown_inside(children, schema[key].dataType, name + shown, place + shown)
                continue
            values = [value for child in children if (value := self._json(child)) != ""]
            for child in children:
                _remove(child)
            if values:
                yield name + shown, place + shown, values[0] if len(children) == 1 else values
        if VALUE not in schema.names and (text := _without_text(element)):
            yield name + VALUE, place + VALUE, text

    def _unknown_inside(
        self, some: Sequence["etree._Element"], data_type: DataType, name: str, place: str
    ) -> Iterator[tuple[str, str, Any]]:
        """Of elements of one name, of which several fit nothing but an array: then they stay as they are."""
        if len(some) > 1 and not isinstance(data_type, ArrayType):
            return
        for at, element in enumerate(some):
            match data_type:
                case StructType():
                    yield from self._unknown(element, data_type, f"{name}.", f"{place}.")
                case ArrayType():
                    yield from self._unknown_inside([element], data_type.elementType, f"{name}[]", f"{place}[{at}]")
                case MapType():
                    for key, children in self._children(element).items():
                        inside = f"{name}{{}}", f"{place}{{{in_place(key)}}}"
                        yield from self._unknown_inside(children, data_type.valueType, *inside)
                    if text := _without_text(element):
                        yield f"{name}.{VALUE}", f"{place}.{VALUE}", text
                case _:
                    for attribute, value in self._attributes(element):
                        self._remove_attribute(element, attribute)
                        if value:
                            shown = in_place(attribute)
                            yield f"{name}.{shown}", f"{place}.{shown}", value

    # -- what does not fit

    def _taken_out(self, record: "etree._Element", path: Fields) -> list[Any]:
        """The values at this path of structs, which are taken out."""
        *above, name = path
        holders = [record]
        for inner in above:
            holders = [child for holder in holders for child in self._children(holder).get(inner, ())]
        values = list[Any]()
        for holder in holders:
            values += [value for attribute, value in self._attributes(holder) if attribute == name]
            self._remove_attribute(holder, name)
            for child in self._children(holder).get(name, ()):
                values.append(self._json(child))
                _remove(child)
            if name == VALUE and (text := _without_text(holder)):
                values.append(text)
        return values

    # -- elements

    def _attributes(self, element: "etree._Element") -> list[tuple[str, str]]:
        return [(self._names.attribute_name(element, raw), value.strip(BLANKS)) for raw, value in element.items()]

    def _remove_attribute(self, element: "etree._Element", attribute: str) -> None:
        for raw in map(str, element.keys()):
            if self._names.attribute_name(element, raw) == attribute:
                del element.attrib[raw]

    def _children(self, element: "etree._Element") -> dict[str, list["etree._Element"]]:
        found = dict[str, list["etree._Element"]]()
        for child in element:
            found.setdefault(tag_of(child, ignore_namespace=self._names.ignore_namespace), []).append(child)
        return found

    def _json(self, element: "etree._Element") -> Any:
        """Its text, or an object of its attributes, elements and text, named as columns are."""
        members: dict[str, Any] = dict(self._attributes(element))
        for key, children in self._children(element).items():
            values = [self._json(child) for child in children]
            members[key] = values[0] if len(values) == 1 else values
        text = own_text(element, has_tails=True)
        if not members:
            return text
        return members | ({VALUE: text} if text else {})


def nearest_nullable(schema: StructType, path: Fields) -> Fields | None:
    """The field at this path, or the nearest around it, that may be null and is in no array or map; None: none may."""
    around: DataType = schema
    found = None
    for at, name in enumerate(path):
        if not isinstance(around, StructType):
            break
        found = path[: at + 1] if around[name].nullable else found
        around = around[name].dataType
    return found


def _type_at(schema: StructType, path: Fields) -> DataType:
    found: Any = schema
    for name in path:
        found = found[name].dataType
    assert isinstance(found, DataType)
    return found


def _remove(element: "etree._Element") -> None:
    """The text behind it stays."""
    parent, before, tail = element.getparent(), element.getprevious(), element.tail
    assert parent is not None
    if tail and before is not None:
        before.tail = (before.tail or "") + tail
    elif tail:
        parent.text = (parent.text or "") + tail
    parent.remove(element)


def _without_text(element: "etree._Element") -> str:
    """Its own text, which is taken out."""
    text = own_text(element, has_tails=True)
    if text:
        element.text = None
        for child in element:
            child.tail = None
    return text
