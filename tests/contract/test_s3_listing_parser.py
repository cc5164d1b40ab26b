"""Pages of a listing are parsed as botocore parses them."""

from typing import Any

import pytest
from botocore.parsers import ResponseParserError, RestXMLParser  # type: ignore[import-untyped]
from botocore.session import get_session  # type: ignore[import-untyped]

from blizzard.storage.s3_connection import parse_aws_timestamp
from blizzard.storage.s3_listing import ListingParser

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


@pytest.mark.parametrize(
    "page", [PAGE, PAGE.replace(' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ""), EMPTY, ""]
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
    with pytest.raises(ResponseParserError):
        parsed(ListingParser, PAGE[:700].encode())
