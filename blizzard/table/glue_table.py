"""How a pipeline's table is named in a Glue database, and whether that is the one."""

import re


def table_name(pipeline: str) -> str:
    """Athena knows lower-case letters, digits and underscores."""
    return re.sub("[^a-z0-9_]", "_", pipeline.lower())


def is_same_location(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(location: str) -> str:
    return re.sub("^s3[an]?://", "s3://", location.rstrip("/"))
