"""The URIs of sources and tables, normalized: `s3://bucket/prefix` or `file:///folder`."""

import posixpath
import re

MAX_CHARACTERS = 1024
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_EXPECTED = "expected s3://bucket/prefix, file:///folder, or a path"


def source_uri(text: str, folder: str | None) -> str:
    """Ends in `/`. Relative paths start from `folder`; None forbids them. Raises ValueError."""
    uri = _absolute(text, folder)
    return uri if uri.endswith("/") else f"{uri}/"


def table_uri(text: str, folder: str | None) -> str:
    """Does not end in `/`, and is not the root of a bucket or disk. Raises ValueError."""
    root, _, path = _absolute(text, folder).removesuffix("/").partition("://")[2].partition("/")
    path = path.rstrip("/")
    if not path:
        raise ValueError(f"found {_shown(text)}, which is the root of a bucket or disk; add the table's folder to it")
    if "//" in f"/{path}":
        raise ValueError(f"found {_shown(text)} with an empty folder in it, which Spark would drop; write a single `/`")
    return f"{'s3' if root else 'file'}://{root}/{path}"


def inventory_uri(text: str) -> str:
    """Of S3 Inventory reports. Ends in `/`. Raises ValueError."""
    uri = _absolute(text, "/")
    if not uri.startswith("s3://"):
        raise ValueError(f"found {_shown(text)}, expected s3://bucket/prefix/source-bucket/id/")
    return uri if uri.endswith("/") else f"{uri}/"


def _absolute(text: str, folder: str | None) -> str:
    _check_characters(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _local(text, folder)
    name, rest = scheme[1].lower(), text[scheme.end() :]
    if name in ("s3", "s3a") and scheme[2]:
        return _s3(rest)
    if name == "file" and rest.startswith("/"):
        return _local(rest, folder)
    raise ValueError(f"found {_shown(text)}; {_EXPECTED}")


def _shown(text: str) -> str:
    """Without a part that may be a password."""
    return repr(re.sub(r"//[^/]*@", "//…@", text))


def _check_characters(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"found {len(text)} characters; {_EXPECTED}, of at most {MAX_CHARACTERS} characters")
    if not text or text != text.strip() or re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError(f"found {_shown(text)}; {_EXPECTED}, without surrounding blanks or control characters")
    if set("*?") & set(text):
        raise ValueError(f"found {_shown(text)} with a wildcard; name the folder here, and the files in `pattern`")


def _s3(rest: str) -> str:
    bucket, slash, key = rest.partition("/")
    if "@" in bucket or ":" in bucket:
        raise ValueError(
            "found `@` or `:` after s3://, expected only the bucket's name; remove credentials and ports: credentials "
            "come from the environment, the endpoint from AWS_ENDPOINT_URL"
        )
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(f"found {bucket!r} as the bucket; expected 3 to 63 of a-z, 0-9, `-` and `.`")
    if {".", ".."} & set(key.split("/")):
        raise ValueError(f"found `.` or `..` among the folders of {rest!r}; write the full path")
    return f"s3://{bucket}{slash}{key}"


def _local(path: str, folder: str | None) -> str:
    if path == "~" or path.startswith("~/"):
        raise ValueError(f"found {path!r}; `~` is not expanded here; write ${{HOME}}{path[1:]}")
    if not path.startswith("/") and folder is None:
        raise ValueError(f"found the relative path {path!r}; expected s3://bucket/prefix or file:///folder")
    full = posixpath.normpath(posixpath.join(folder or "/", path))
    return f"file:///{full.lstrip('/')}"
