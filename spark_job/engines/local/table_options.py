"""What deltalake is told of the storage of tables."""

from collections.abc import Iterable, Mapping

from blizzard.storage.s3_connection import S3Settings


def table_options(uris: Iterable[str], s3: S3Settings) -> Mapping[str, str]:
    """For all of these tables. Importing botocore takes a tenth of a second, and tables on a disk need none."""
    if not any(uri.startswith("s3") for uri in uris):
        return {}
    from blizzard.table.storage_options import storage_options

    return storage_options(s3)
