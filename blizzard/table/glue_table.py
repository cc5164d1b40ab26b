"""How a pipeline's table is named in a Glue database, and whether that is the one."""

import re
from typing import Any

MISSING = "EntityNotFoundException"
"""Code of Glue's error for what is not there."""


def registered_location(client: Any, database: str, name: str) -> str | None:
    """Of a table, empty if it names none; None: there is no such table, or no such database. `client`: botocore's of
    Glue, whose other errors are raised."""
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    try:
        table = client.get_table(DatabaseName=database, Name=name)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] == MISSING:
            return None
        raise
    return str(table.get("StorageDescriptor", {}).get("Location", ""))


def table_name(pipeline: str) -> str:
    """Athena knows lower-case letters, digits and underscores."""
    return re.sub("[^a-z0-9_]", "_", pipeline.lower())


def is_same_location(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(location: str) -> str:
    return re.sub("^s3[an]?://", "s3://", location.rstrip("/"))
