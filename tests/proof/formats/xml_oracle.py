"""XML read by expat as a whole."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from tests.proof.bad_input.values import Expected
from tests.proof.formats.verdicts import ANYTHING, NEVER, UNKNOWN, Reading, exactly, null, of_text, wanted

_OF_ENCODINGS = frozenset({18, 19, 30, 31})
"""expat's errors for what is said of the encoding, or in the declaration: libxml2 knows other encodings."""
_INVALID_TOKEN = 4
_OF_NAMES = re.compile(
    "[\u00b7\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u200c\u200d\u203f\u2040\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff]"
)
"""Characters of names in the fifth edition of XML 1.0, by which libxml2 goes. expat goes by the fourth, with fewer."""
_NO_NAME_OF_ONE_BYTE = re.compile("[\u00aa\u00b5\u00ba]")
"""In an encoding of one byte a character expat takes them into names, against both editions."""
_BLANKS = " \t\r\n"


@dataclass(slots=True)
class Element:
    name: str
    attributes: Mapping[str, str]
    children: list["Element"] = field(default_factory=list)
    text: str = ""
    """Its own, without that of its children."""


class Tree:
    """Builds the elements. `declares_entity`: in a document type."""

    def __init__(self) -> None:
        self.root = Element("", {})
        self.declares_entity = False
        self.version = "1.0"
        self._open = [self.root]

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        element = Element(name, attributes)
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, name: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        self._open[-1].text += data

    def declared(self, version: str, *_: object) -> None:
        self.version = version

    def entity(self, *_: object) -> None:
        self.declares_entity = True


def read_xml(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    tree, parser = Tree(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = tree.text, tree.entity
    parser.XmlDeclHandler = tree.declared
    parser.buffer_text = True
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        at_name = error.code == _INVALID_TOKEN and _begins_with_name(body[parser.ErrorByteIndex :])
        return UNKNOWN if error.code in _OF_ENCODINGS or at_name else Reading(None, f"{error}")
    except (ValueError, LookupError):
        return UNKNOWN
    if tree.declares_entity:
        return Reading(None, "an entity is declared")
    rows = [*_rows(tree.root, options["row_tag"])]
    if not rows and tree.root.children[0].children:
        return Reading(None, f"no element {options['row_tag']}")
    names = {name for element in _all(tree.root) for name in (element.name, *element.attributes)}
    # expat does not look whether a prefix is declared, and knows other versions than libxml2.
    odd = any(":" in name or name.startswith("xmlns") or _NO_NAME_OF_ONE_BYTE.search(name) for name in names)
    odd = odd or tree.version != "1.0"
    return Reading([wanted(schema, _columns(row, schema)) for row in rows], may_be_dead=odd, is_certain=not odd)


def _begins_with_name(rest: bytes) -> bool:
    """`rest`: in UTF-8; other encodings have no such characters in the corpus."""
    return _OF_NAMES.match(rest[:4].decode(errors="ignore")) is not None


def _rows(element: Element, tag: str) -> Any:
    for child in element.children:
        if child.name == tag:
            yield child
        else:
            yield from _rows(child, tag)


def _all(element: Element) -> Any:
    for child in element.children:
        yield child
        yield from _all(child)


def _columns(element: Element, schema: StructType) -> dict[str, Expected]:
    """docs/format-xml.md: attributes with `_` before their names, child elements, and text as `_VALUE`."""
    found: dict[str, list[Any]] = {f"_{name}": [value] for name, value in element.attributes.items()}
    for child in element.children:
        found.setdefault(child.name, []).append(child)
    if text := element.text.strip(_BLANKS):
        found["_VALUE"] = [text]
    return {column.name: _expected(column, found.get(column.name, [])) for column in schema}


def _expected(column: StructField, given: list[Any]) -> Expected:
    if not given:
        return null(nullable=column.nullable)
    if isinstance(column.dataType, ArrayType):
        element = column.dataType.elementType
        return _together([_value(each, element) for each in given])
    if len(given) > 1:
        return NEVER
    value = _value(given[0], column.dataType)
    return NEVER if not column.nullable and value.fits is not False and value.holds(None) else value


def _value(given: Any, data_type: DataType) -> Expected:
    if isinstance(data_type, StructType):
        if isinstance(given, str):
            return NEVER
        each = _columns(given, data_type)
        whole = _together([*each.values()])
        return Expected(whole.fits, lambda found: type(found) is dict and whole.holds([found[name] for name in each]))
    if isinstance(given, Element) and given.children:
        return NEVER
    text = (given.text if isinstance(given, Element) else given).strip(_BLANKS)
    if not text:
        empty = Expected(None if isinstance(given, str) else True, lambda found: found is None)
        return exactly("") if isinstance(data_type, StringType) else empty
    return of_text(text, data_type)


def _together(each: list[Expected]) -> Expected:
    fits = [one.fits for one in each]
    fit = False if False in fits else None if None in fits else True

    def holds(found: Any) -> bool:
        return (
            isinstance(found, list)
            and len(found) == len(each)
            and all(one is ANYTHING or one.holds(value) for one, value in zip(each, found, strict=True))
        )

    return Expected(fit, holds)
