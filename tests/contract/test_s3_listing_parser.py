"""Pages of a listing are parsed as botocore parses them."""

from typing import Any

import pytest
from botocore import handlers  # type: ignore[import-untyped]
from botocore.hooks import HierarchicalEmitter  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError, RestXMLParser  # type: ignore[import-untyped]
from botocore.session import get_session  # type: ignore[import-untyped]

from blizzard.storage.s3_connection import parse_aws_timestamp
from blizzard.storage.s3_listing import ListingParser, parse_pages_once

KEPT = {"Key", "Size", "ETag", "LastModified"}
FIRST = "<Key>a%2Fb+c%25</Key><LastModified>2026-11-22T10:00:00.000Z</LastModified><ETag>&quot;e-2&quot;</ETag>"
PAGE = f"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>a%2F</Prefix>
<KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>%2F</Delimiter><EncodingType>url</EncodingType>
<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken><StartAfter></StartAfter>
<Contents>{FIRST}<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumAlgorithm>SHA256</ChecksumAlgorithm>
<Size>17</Size><Owner><ID>o</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>
<Contents><Key>x</Key><LastModified>2026-11-22T10:00:00Z</LastModified><ETag></ETag><Size>0</Size></Contents>
<CommonPrefixes><Prefix>a%2Fé%2F</Prefix></CommonPrefixes><CommonPrefixes><Prefix>b%2F</Prefix></CommonPrefixes>
</ListBucketResult>"""
NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
EMPTY = "<ListBucketResult><IsTruncated>false</IsTruncated><Prefix/></ListBucketResult>"


def parsed(kind: type, body: bytes, operation: str = "ListObjectsV2", status: int = 200) -> dict[str, Any]:
    model = get_session().get_service_model("s3").operation_model(operation).output_shape
    response = {"body": body, "headers": {"x-amz-request-charged": "requester"}, "status_code": status}
    found: dict[str, Any] = kind(timestamp_parser=parse_aws_timestamp).parse(response, model)
    return found


PLAIN = PAGE.replace("<Owner><ID>o</ID></Owner>", "")
"""As S3 writes a page that nobody asked for owners."""
SECOND = "<Contents><Key>x</Key>"


@pytest.mark.parametrize(
    "page",
    [
        PAGE,
        PAGE.replace(NAMESPACE, ""),
        EMPTY,
        "",
        PLAIN,
        PLAIN.replace(NAMESPACE, ""),
        PLAIN.replace("a%2Fb+c%25", "a&amp;b&#34;&lt;é"),
        PLAIN.replace("e-2", "&#39;"),
        PLAIN.replace(SECOND, f"<!-- {SECOND.removesuffix('<Key>x</Key>')} --> {SECOND}"),
        PLAIN.replace("<Key>x</Key>", "<Key><![CDATA[x]]></Key>"),
        PLAIN.replace("a%2Fb+c%25", "a\r\nb"),
        PLAIN.replace("<Size>17</Size>", "<Size>17</Size><New>member</New>"),
        PLAIN.replace("<Contents>", "<s3:Contents>", 1)
        .replace("</Contents>", "</s3:Contents>", 1)
        .replace("xmlns=", 'xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/" xmlns='),
    ],
)
def test_a_page_has_what_botocore_finds_in_it(page: str) -> None:
    expected, found = (parsed(kind, page.encode()) for kind in (RestXMLParser, ListingParser))
    for each in expected.get("Contents", ()):
        for name in {*each} - KEPT:
            del each[name]
    for name in ("KeyCount", "MaxKeys"):
        expected.pop(name, None)
    assert found == expected


def test_other_answers_and_errors_are_botocores_own() -> None:
    listing = b"<ListAllMyBucketsResult><Buckets><Bucket><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>"
    assert parsed(ListingParser, listing, "ListBuckets") == parsed(RestXMLParser, listing, "ListBuckets")
    error = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    assert parsed(ListingParser, error, status=403)["Error"]["Code"] == "AccessDenied"


@pytest.mark.parametrize("page", [PAGE, PLAIN])
@pytest.mark.parametrize("size", [700, 800, len(PLAIN) - 1])
def test_a_page_that_was_cut_off_is_refused(page: str, size: int) -> None:
    with pytest.raises(ResponseParserError):
        parsed(ListingParser, page[:size].encode())


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the page as S3 writes it, the XML parser gets no object."""
    texts = []
    whole = ListingParser._initial_body_parse
    monkeypatch.setattr(
        ListingParser, "_initial_body_parse", lambda self, text: texts.append(text) or whole(self, text)
    )
    assert len(parsed(ListingParser, PLAIN.encode())["Contents"]) == 2
    assert ["Contents" in text for text in texts] == [False]


class Emitter(HierarchicalEmitter):  # type: ignore[misc]
    """With botocore's own handler. `status`: of a response after its parsing."""

    def __init__(self) -> None:
        super().__init__()
        self.register_first("before-parse.s3.*", handlers._handle_200_error)

    def status(self, body: str, operation: str = "ListObjectsV2") -> int:
        response = {"status_code": 200, "body": body.encode()}
        model = get_session().get_service_model("s3").operation_model(operation)
        self.emit(f"before-parse.s3.{operation}", operation_model=model, response_dict=response)
        return int(response["status_code"])


def test_an_error_that_comes_as_a_success_is_seen_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "<Error><Code>InternalError</Code></Error>"
    events, parsed_bodies = Emitter(), []
    whole = handlers._looks_like_special_case_error

    def look(status: int, body: bytes) -> Any:
        parsed_bodies.append(body)
        return whole(status, body)

    monkeypatch.setattr(handlers, "_looks_like_special_case_error", look)
    parse_pages_once(events)
    assert events.status(PLAIN) == 200
    assert parsed_bodies == []
    assert (events.status(error), events.status(""), events.status(PLAIN[:30])) == (500, 200, 500)
    assert events.status("<CopyObjectResult/>", "CopyObject") == 200
    assert events.status(error, "CopyObject") == 500
    assert len(parsed_bodies) == 5
