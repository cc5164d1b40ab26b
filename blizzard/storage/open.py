"""Opening a store or a text by its URI."""

from pathlib import Path

from blizzard.errors import ConfigError
from blizzard.log import Log, silent
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.local_files import read_file
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings


def open_store(uri: str, settings: S3Settings, *, may_be_missing: bool = False, log: Log = silent) -> ObjectStore:
    """The objects below an `s3://` or `s3a://` prefix, a `file:` URI or a plain path. Sends no request yet.

    The part after the scheme is taken literally, without percent-decoding, as in Hadoop's Path, so that Spark uses the
    same location. `may_be_missing`: listing a local folder that does not exist returns nothing instead of raising
    BucketMissing (for tables, since their first write creates the folder). Raises ConfigError.
    """
    scheme, separator, rest = uri.partition(":")
    if separator and scheme in ("s3", "s3a"):
        return _s3(uri, rest, settings, log)
    if separator and scheme == "file":
        return LocalStore(_file_path(uri, rest), may_be_missing=may_be_missing, log=log)
    if "://" in uri or not uri:
        raise ConfigError([f"{uri!r}: expected s3://bucket/prefix/, file:///folder or a path to a folder"])
    return LocalStore(uri, may_be_missing=may_be_missing, log=log)


def read_text(uri: str, settings: S3Settings) -> str:
    """The UTF-8 text of one object or file; the URI is as in `open_store`. A local file may be a link to any place.

    Raises NotFound and the other errors of a store, and ConfigError if it is not UTF-8.
    """
    folder, slash, name = uri.rpartition("/")
    if uri.startswith(("s3:", "s3a:")):
        data = open_store(folder + slash, settings).get(name)
    else:
        data = read_file(Path(_file_path(uri, uri.removeprefix("file:")) if uri.startswith("file:") else uri))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            [f"{uri}: expected UTF-8 text, found the byte {data[error.start]:#x} at {error.start}; save it as UTF-8"]
        ) from error


def _s3(uri: str, rest: str, settings: S3Settings, log: Log) -> S3Store:
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not bucket:
        raise ConfigError([f"{uri!r}: expected s3://bucket/prefix/, found no bucket"])
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return S3Store(bucket, prefix, settings, log=log)


def _file_path(uri: str, rest: str) -> str:
    """`file:///a` and Hadoop's `file:/a` are the same."""
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    if not path.startswith("/") or path.startswith("//"):
        raise ConfigError([f"{uri!r}: expected file:///absolute/folder, without a host and not relative; correct it"])
    return path
