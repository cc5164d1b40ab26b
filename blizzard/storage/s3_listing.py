"""A parser for the pages of a listing, of whose CPU time botocore's own takes the most. Imported with botocore."""

import re
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import Any

from botocore import handlers  # type: ignore[import-untyped]
from botocore.parsers import RestXMLParser  # type: ignore[import-untyped]

_LISTING, _PAGE = "ListObjectsV2", "ListObjectsV2Output"
_TEXTS = frozenset(
    {"ContinuationToken", "Delimiter", "EncodingType", "Name", "NextContinuationToken", "Prefix", "StartAfter"}
)
_OBJECT = re.compile(
    r"<Contents>\s*<Key>([^<]*)</Key>\s*<LastModified>([^<]*)</LastModified>\s*<ETag>([^<]*)</ETag>\s*"
    r"(?:<Checksum\w+>[^<]*</Checksum\w+>\s*)*<Size>([0-9]+)</Size>\s*"
    r"(?:<StorageClass>[^<]*</StorageClass>\s*)?</Contents>",
    re.ASCII,
)
"""As S3 writes it. The expression has this number of groups."""
_GROUPS = 4
_ROOT, _ROOT_WITHIN_BYTES = b"<ListBucketResult", 300
_EVENT = "before-parse.s3.*"


class ListingParser(RestXMLParser):  # type: ignore[misc]
    """botocore's parser, with a shorter way through a page of objects: of each only key, size, etag and time."""

    def _parse_payload(self, response: Any, shape: Any, member_shapes: Any, final_parsed: Any) -> None:
        parts = _divided(response["body"]) if shape.name == _PAGE else None
        if parts is None:
            super()._parse_payload(response, shape, member_shapes, final_parsed)
            return
        final_parsed.update(page_of(self._initial_body_parse("".join(parts[:: _GROUPS + 1])), self._timestamp_parser))
        columns = (parts[number :: _GROUPS + 1] for number in range(1, _GROUPS + 1))
        time_of = lru_cache(maxsize=128)(self._timestamp_parser)
        final_parsed["Contents"] = [
            {"Key": _text(key), "LastModified": time_of(modified), "ETag": _text(etag), "Size": int(size)}
            for key, modified, etag, size in zip(*columns, strict=True)
        ]

    def _handle_structure(self, shape: Any, node: Any) -> Any:
        if shape.name == _PAGE and not isinstance(node, list):
            return page_of(node, self._timestamp_parser)
        return super()._handle_structure(shape, node)


def _divided(body: bytes) -> list[str] | None:
    """The page without its objects, in parts, and between these the values of each object. None if it has none, or is
    written in another way than S3's: then only an XML parser can tell."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if "<!" in text or "\r" in text:
        return None
    parts = _OBJECT.split(text)
    return None if len(parts) == 1 or any("Contents" in part for part in parts[:: _GROUPS + 1]) else parts


def _text(escaped: str) -> str:
    if "&" not in escaped:
        return escaped
    found = escaped.replace("&quot;", '"')
    return found if "&" not in found else unescape(found)


def parse_pages_once(events: Any) -> None:
    """`events`: of a client of S3. botocore parses each answer twice: at first to see whether it is an error that came
    as a success. Of a page its beginning tells."""
    whole = getattr(handlers, "_handle_200_error", None)
    if whole is None:
        return

    def look(operation_model: Any, response_dict: Any, **more: Any) -> None:
        is_page = operation_model.name == _LISTING and _ROOT in response_dict["body"][:_ROOT_WITHIN_BYTES]
        if not is_page:
            whole(operation_model=operation_model, response_dict=response_dict, **more)

    events.unregister(_EVENT, whole)
    events.register_first(_EVENT, look)


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
