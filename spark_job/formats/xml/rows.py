"""The elements of an XML file that are its records, one by one, within bounded memory."""

from collections.abc import Iterator

from lxml import etree

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault, Limits, Readable

_OF_LIMITS = "XML_PARSE_HUGE"
"""In what the parser says of a file that is above one of its own limits, which are not lifted: deeper elements would
be too deep for Python."""
_UNDECLARED = etree.ErrorTypes.WAR_UNDECLARED_ENTITY
"""`Entity 'name' not defined`, of a file with a DTD elsewhere."""


class RowReader:
    """Reads one stream. `row_tag`: the elements' name, with its prefix unless namespaces are ignored. An element of
    that name inside another one is no record.

    Nothing is loaded from elsewhere, and no entity is expanded: a file that declares one is refused.
    """

    def __init__(self, stream: Readable, limits: Limits, row_tag: str, *, ignore_namespace: bool) -> None:
        self._stream = _Limited(stream, limits)
        self._row_tag = row_tag
        self._ignore_namespace = ignore_namespace

    def __iter__(self) -> Iterator[bytes]:
        """Each record as XML in UTF-8. Raises FileFault."""
        count = 0
        local = self._row_tag.rpartition(":")[2]
        events = etree.iterparse(
            self._stream,
            events=("start", "end"),
            tag=f"{{*}}{local}",
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        row: etree._Element | None = None
        has_doctype = False
        try:
            for event, element in events:
                if event == "start":
                    if row is None and self._is_row(element):
                        row = element
                        has_doctype = _has_doctype(row)
                elif element is row:
                    if has_doctype:
                        _refuse_references(row, events.error_log)
                    yield etree.tostring(row, encoding="utf-8", with_tail=False, xml_declaration=False)
                    _forget(row)
                    row, count = None, count + 1
                    self._stream.begin_record()
        except etree.XMLSyntaxError as error:
            raise FileFault(Stage.PARSE, _why_not_parsed(error, events.error_log, count)) from error
        if events.root is not None:
            _refuse_references(events.root, events.error_log)
        if not count:
            self._check_without_rows(events.root)

    def _is_row(self, element: "etree._Element") -> bool:
        return self._ignore_namespace or tag_of(element, ignore_namespace=False) == self._row_tag

    def _check_without_rows(self, root: "etree._Element | None") -> None:
        """An empty outermost element is a file without records."""
        if root is not None and (len(root) or (root.text or "").strip()):
            found = f"its outermost element is {tag_of(root, ignore_namespace=False)}"
            raise FileFault(Stage.PARSE, f"it has no element {self._row_tag}, which `row_tag` names; {found}")


def _why_not_parsed(error: etree.XMLSyntaxError, log: "etree._ListErrorLog", records: int) -> str:
    """`records`: before it. The log is asked for what the error calls a file without elements."""
    if _OF_LIMITS in str(error):
        line, column = error.position
        return (
            f"limit of the XML parser, after {records} records: found a text or an attribute of more than 10,000,000 "
            f"bytes, or more than 255 levels of elements, at line {line}, column {column}"
        )
    last = log.last_error if error.position == (0, 0) else None
    why = str(error) if last is None else f"{last.message}, line {last.line}, column {last.column}"
    return f"not well-formed XML, after {records} records: {why}"


def elements_of(records: bytes) -> "etree._Element":
    """The elements of some records that RowReader gave, one behind the other. The parser's limits are RowReader's
    business, which finds an attribute above them only when it has given the record."""
    return etree.fromstring(b"<all>%b</all>" % records, etree.XMLParser(huge_tree=True, no_network=True))


class _Limited:
    """Counts the bytes since the last record. Text outside of records counts as well, since lxml keeps it until the
    next record ends."""

    def __init__(self, stream: Readable, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._total = 0
        self._since_record = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._total += len(data)
        self._since_record += len(data)
        self._limits.check_file_bytes(self._total)
        if self._since_record > self._limits.max_record_bytes + len(data):
            limit = self._limits.max_record_bytes
            raise FileFault(Stage.PARSE, f"limit max_record_bytes: no record ends within {limit} bytes")
        return data

    def begin_record(self) -> None:
        self._since_record = 0


def tag_of(element: "etree._Element", *, ignore_namespace: bool) -> str:
    """The name as the file writes it."""
    tag: str = element.tag
    if not tag.startswith("{"):
        return tag
    local = tag.rpartition("}")[2]
    return local if ignore_namespace or element.prefix is None else f"{element.prefix}:{local}"


def _has_doctype(element: "etree._Element") -> bool:
    """Raises FileFault if it declares an entity."""
    info = element.getroottree().docinfo
    dtd = info.internalDTD
    if dtd is not None and (declared := [entity.name for entity in dtd.iterentities()]):
        raise FileFault(Stage.PARSE, f"it declares the entity {declared[0]}; entities are not expanded")
    return bool(info.doctype)


def _refuse_references(row: "etree._Element", log: "etree._ListErrorLog") -> None:
    """To entities that a DTD elsewhere declares: it is not loaded. In an attribute, and between records that are
    forgotten, only the log still has them."""
    found = [str(entity.text) for entity in row.iter(etree.Entity)]
    found += ["&" + entry.message.split("'")[1] + ";" for entry in log if entry.type == _UNDECLARED]
    if found:
        raise FileFault(Stage.PARSE, f"it refers to the entity {found[0]}; entities are not expanded")


def _forget(row: "etree._Element") -> None:
    """The record and all before it, so that memory does not grow with the file."""
    row.clear()
    for element in (row, *row.iterancestors()):
        parent = element.getparent()
        while parent is not None and element.getprevious() is not None:
            del parent[0]
