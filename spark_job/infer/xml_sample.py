"""The records in the beginning of XML files, and the types of what they hold."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lxml import etree

from blizzard.config.ddl import Array, Column, Struct, Type
from blizzard.infer.observed import ARRAY, OBJECT, FieldSeen, Observed
from blizzard.infer.types import STRING, VOID, merge_all
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.xml.elements import ATTRIBUTE_PREFIX, VALUE
from spark_job.formats.xml.rows import RowReader, elements_of, tag_of
from spark_job.infer.heads import Head

_BLANKS = " \t\r\n"


@dataclass(slots=True)
class _Node:
    """All elements of one name at one place. `parents`: those that have some; `together`: the most of them in one."""

    count: int = 0
    parents: int = 0
    together: int = 0
    texts: list[str] = field(default_factory=list)
    members: "dict[str, _Node]" = field(default_factory=dict)


def row_tag_of(data: bytes) -> str | None:
    """The name of the elements that are records: of those right below the outermost one, the most frequent; of a file
    with one, that one."""
    parser = etree.XMLPullParser(events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False)
    depth, names = 0, Counter[str]()
    try:
        parser.feed(data)
        for event, element in parser.read_events():
            depth += 1 if event == "start" else -1
            if event == "start" and depth == 2:
                names[tag_of(element, ignore_namespace=False)] += 1
    except etree.XMLSyntaxError:
        return None
    return names.most_common(1)[0][0] if names else None


def observe_xml(
    heads: Sequence[Head], row_tag: str, kind_of: Callable[[str], Type], *, ignore_namespace: bool = False
) -> Observed:
    observed, root = Observed(is_text=True), _Node()
    for head in heads:
        for row in _rows(head, row_tag, ignore_namespace=ignore_namespace):
            observed.records += 1
            _add(root, elements_of(row)[0], ignore_namespace=ignore_namespace)
            root.count += 1
    if observed.records:
        kind = _type(root, "", kind_of, observed)
        observed.found = kind if isinstance(kind, Struct) else Struct((Column(VALUE, kind),))
    return observed


def _rows(head: Head, row_tag: str, *, ignore_namespace: bool) -> Iterator[bytes]:
    """Up to where the file is cut off."""
    try:
        yield from RowReader(io.BytesIO(head.data), Limits(), row_tag, ignore_namespace=ignore_namespace)
    except FileFault:
        if head.is_whole:
            raise


def _add(node: _Node, element: "etree._Element", *, ignore_namespace: bool) -> None:
    for name, value in element.items():
        attribute = node.members.setdefault(ATTRIBUTE_PREFIX + name.rpartition("}")[2], _Node())
        attribute.count, attribute.parents, attribute.together = attribute.count + 1, attribute.parents + 1, 1
        attribute.texts.append(value.strip(_BLANKS))
    seen = Counter[str]()
    for child in element:
        name = tag_of(child, ignore_namespace=ignore_namespace)
        seen[name] += 1
        inner = node.members.setdefault(name, _Node())
        inner.count, inner.together = inner.count + 1, max(inner.together, seen[name])
        inner.parents += seen[name] == 1
        _add(inner, child, ignore_namespace=ignore_namespace)
    text = "".join([element.text or "", *(child.tail or "" for child in element)]).strip(_BLANKS)
    if text or not len(element):
        node.texts.append(text)


def _type(node: _Node, path: str, kind_of: Callable[[str], Type], observed: Observed) -> Type:
    if not node.members:
        return _text_type(node.texts, path, kind_of, observed)
    columns = []
    for name, member in node.members.items():
        place = f"{path}.{name}" if path else name
        kind = _member_type(member, place, kind_of, observed)
        columns.append(Column(name, kind, nullable=member.parents < node.count))
    if any(node.texts):
        columns.append(Column(VALUE, _text_type(node.texts, f"{path}.{VALUE}", kind_of, observed)))
    return Struct(tuple(columns))


def _member_type(member: _Node, place: str, kind_of: Callable[[str], Type], observed: Observed) -> Type:
    """Of an object or array it counts those that have one, as of JSON, and not the texts in it."""
    if member.together > 1:
        kind = Array(_type(member, f"{place}[]", kind_of, observed))
        shown = observed.fields.get(f"{place}[]", FieldSeen()).examples
        observed.fields[place] = FieldSeen(Counter({ARRAY: member.parents}), [*shown])
        return kind
    if member.members:
        observed.fields[place] = FieldSeen(Counter({OBJECT: member.parents}))
    return _type(member, place, kind_of, observed)


def _text_type(texts: Sequence[str], path: str, kind_of: Callable[[str], Type], observed: Observed) -> Type:
    seen, kinds = observed.fields.setdefault(path, FieldSeen()), list[Type]()
    for text, count in Counter(texts).items():
        if text:
            kinds.append(kind := kind_of(text))
            seen.add(kind, text, count)
    merged = merge_all(kinds)
    return STRING if merged == VOID else merged
