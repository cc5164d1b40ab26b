"""A parser for the pages of a listing, of whose CPU time botocore's own takes the most. Imported with botocore."""

from collections.abc import Callable
from typing import Any

from botocore.parsers import RestXMLParser  # type: ignore[import-untyped]

_PAGE = "ListObjectsV2Output"
_TEXTS = frozenset(
    {"ContinuationToken", "Delimiter", "EncodingType", "Name", "NextContinuationToken", "Prefix", "StartAfter"}
)


class ListingParser(RestXMLParser):  # type: ignore[misc]
    """botocore's parser, with a shorter way through a page of objects: of each only key, size, etag and time."""

    def _handle_structure(self, shape: Any, node: Any) -> Any:
        if shape.name == _PAGE and not isinstance(node, list):
            return page_of(node, self._timestamp_parser)
        return super()._handle_structure(shape, node)


class ParserFactory:
    """As botocore's."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def set_parser_defaults(self, **defaults: Any) -> None:
        self._whole.set_parser_defaults(**defaults)

    def create_parser(self, protocol_name: str) -> Any:
        if protocol_name != "rest-xml":
            return self._whole.create_parser(protocol_name)
        return ListingParser(**self._whole._defaults)


def page_of(root: Any, time_of: Callable[[str], Any]) -> dict[str, Any]:
    """As botocore parses it. Other members of a page, and of its objects, are left out."""
    namespace = root.tag[: root.tag.rfind("}") + 1]
    contents, prefixes, prefix = (namespace + name for name in ("Contents", "CommonPrefixes", "Prefix"))
    fields = tuple(namespace + name for name in ("Key", "LastModified", "ETag", "Size"))
    page: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    for element in root:
        tag = element.tag
        if tag == contents:
            key, modified, etag, size = map(element.findtext, fields)
            found.append({"Key": key, "LastModified": time_of(modified), "ETag": etag, "Size": int(size)})
        elif tag == prefixes:
            page.setdefault("CommonPrefixes", []).append({"Prefix": element.findtext(prefix)})
        elif (name := tag.removeprefix(namespace)) in _TEXTS:
            page[name] = element.text or ""
        elif name == "IsTruncated":
            page[name] = element.text == "true"
    if found:
        page["Contents"] = found
    return page
