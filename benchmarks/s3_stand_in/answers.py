"""Requests of the S3 API and their responses."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from itertools import islice
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape, unescape

from benchmarks.s3_stand_in.objects import Bucket, Exists, Object

META = "x-amz-meta-"
ADOPT = "stand-in-adopt"
"""Not of S3: the body lists keys of files that were put into the bucket's folder. The answer has size, etag and time of
each."""
COUNTED = "stand-in-counted"
"""Not of S3 either: how many requests came, by what AWS charges for them."""
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """Header names are in lower case. `body`: without chunk framing."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """`length`: Content-Length, if it differs from the length of `body` (HEAD)."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass(slots=True)
class CountingAnswers:
    """Called with each request."""

    buckets: Mapping[str, Bucket]
    counted: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> Answer:
        if request.target == f"/?{COUNTED}":
            return Answer(200, json.dumps(self.counted).encode())
        self.counted[kind_of(request)] += 1
        return answer(self.buckets, request)


def kind_of(request: Request) -> str:
    if "list-type=2" in request.target:
        return "LIST"
    return "PUT" if request.method == "POST" else request.method


def answer(buckets: Mapping[str, Bucket], request: Request) -> Answer:
    path, _, query_text = request.target.partition("?")
    name, _, key = unquote(path.lstrip("/")).partition("/")
    bucket, query = buckets.get(name), dict(parse_qsl(query_text, keep_blank_values=True))
    if bucket is None:
        return _error(404, "NoSuchBucket", name)
    try:
        return _of_object(buckets, bucket, key, query, request) if key else _of_bucket(bucket, query, request)
    except Exists:
        return _error(412, "PreconditionFailed", key)


def _of_bucket(bucket: Bucket, query: Mapping[str, str], request: Request) -> Answer:
    if request.method == "HEAD":
        return Answer(200, headers={"x-amz-bucket-region": "us-east-1"})
    if request.method == "POST" and "delete" in query:
        keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", request.body.decode(), re.DOTALL)]
        for key in keys:
            bucket.delete(key)
        return _xml("DeleteResult", "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys))
    if request.method == "POST" and ADOPT in query:
        keys = request.body.decode().splitlines()
        lines = (f"{one.size} {one.etag} {one.modified_ts}" for one in bucket.adopt(keys))
        return Answer(200, "\n".join(lines).encode())
    if request.method == "GET" and "location" in query:
        return _xml("LocationConstraint", "")
    if request.method == "GET" and query.get("list-type") == "2":
        return _listing(bucket, query)
    return _error(501, "NotImplemented", request.target)


def _of_object(
    buckets: Mapping[str, Bucket], bucket: Bucket, key: str, query: Mapping[str, str], request: Request
) -> Answer:
    create = request.headers.get("if-none-match") == "*"
    meta = {name: value for name, value in request.headers.items() if name.startswith(META)}
    match request.method, "uploadId" in query, "uploads" in query:
        case "GET" | "HEAD", False, False:
            return _read(bucket.objects.get(key), key, request)
        case "PUT", False, False:
            source = request.headers.get("x-amz-copy-source")
            if source is not None:
                return _copy(buckets, bucket, key, unquote(source).lstrip("/"), meta)
            return _made(bucket.put(key, request.body, meta, create=create))
        case "PUT", True, False:
            etag = bucket.put_part(query["uploadId"], int(query["partNumber"]), request.body)
            return Answer(200, headers={"ETag": f'"{etag}"'})
        case "POST", False, True:
            upload = bucket.begin_upload()
            return _xml("InitiateMultipartUploadResult", f"<Key>{escape(key)}</Key><UploadId>{upload}</UploadId>")
        case "POST", True, False:
            made = bucket.complete(query["uploadId"], key, meta, create=create)
            inner = f"<Key>{escape(key)}</Key><ETag>&quot;{made.etag}&quot;</ETag>"
            return _xml("CompleteMultipartUploadResult", inner)
        case "DELETE", True, False:
            bucket.abort(query["uploadId"])
            return Answer(204)
        case "DELETE", False, False:
            bucket.delete(key)
            return Answer(204)
    return _error(501, "NotImplemented", request.target)


def _read(found: Object | None, key: str, request: Request) -> Answer:
    head = request.method == "HEAD"
    if found is None:
        return Answer(404) if head else _error(404, "NoSuchKey", key)
    if request.headers.get("if-match", f'"{found.etag}"').strip('"') != found.etag:
        return _error(412, "PreconditionFailed", key)
    headers = {
        "ETag": f'"{found.etag}"',
        "Last-Modified": formatdate(found.modified_ts, usegmt=True),
        "Content-Type": "application/octet-stream",
        "Accept-Ranges": "bytes",
        **found.meta,
    }
    start, stop = 0, found.size
    wanted = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", request.headers.get("range", ""))
    if wanted is not None and found.size:
        start = int(wanted[1]) if wanted[1] else max(0, found.size - int(wanted[2]))
        stop = min(found.size, int(wanted[2]) + 1) if wanted[1] and wanted[2] else found.size
        if start >= found.size:
            return _error(416, "InvalidRange", key)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{found.size}"
    status = 206 if "Content-Range" in headers else 200
    return Answer(status, b"" if head else found.read(start, stop), headers, stop - start)


def _copy(buckets: Mapping[str, Bucket], bucket: Bucket, key: str, source: str, meta: dict[str, str]) -> Answer:
    name, _, source_key = source.partition("/")
    found = buckets[name].objects.get(source_key)
    if found is None:
        return _error(404, "NoSuchKey", source_key)
    made = bucket.put(key, found.read(0, found.size), meta or found.meta, create=False)
    when = f"<LastModified>{_iso(made.modified_ts)}</LastModified>"
    return _xml("CopyObjectResult", f"{when}<ETag>&quot;{made.etag}&quot;</ETag>")


def _made(made: Object) -> Answer:
    return Answer(200, headers={"ETag": f'"{made.etag}"'})


def _listing(bucket: Bucket, query: Mapping[str, str]) -> Answer:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after", "")
    most = min(PAGE, int(query.get("max-keys", PAGE)))
    page = [*islice(bucket.listed(prefix, delimiter, after), most + 1)]
    more, page = len(page) > most, page[:most]
    shown = quote if query.get("encoding-type") == "url" else escape
    return _xml("ListBucketResult", "".join(_list_parts(query, prefix, page, shown, more)))


def _list_parts(
    query: Mapping[str, str],
    prefix: str,
    page: list[tuple[str, Object | None]],
    shown: Callable[[str], str],
    more: bool,
) -> Iterator[str]:
    yield f"<Prefix>{shown(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
    if "encoding-type" in query:
        yield "<EncodingType>url</EncodingType>"
    yield f"<IsTruncated>{str(more).lower()}</IsTruncated>"
    if more:
        yield f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>"
    for key, found in page:
        if found is None:
            yield f"<CommonPrefixes><Prefix>{shown(key)}</Prefix></CommonPrefixes>"
        else:
            yield (
                f"<Contents><Key>{shown(key)}</Key><LastModified>{_iso(found.modified_ts)}</LastModified>"
                f"<ETag>&quot;{found.etag}&quot;</ETag><Size>{found.size}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )


def _iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _xml(name: str, inner: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'
    return Answer(200, text.encode(), {"Content-Type": "application/xml"})


def _error(status: int, code: str, what: str) -> Answer:
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{escape(what)}</Message></Error>'
    )
    return Answer(status, text.encode(), {"Content-Type": "application/xml"})
