"""Properties of a table that matter to Blizzard, and what the local engine needs to commit to it: it leaves all other
tables to Spark."""

import re
from collections.abc import Collection, Iterator, Mapping

TXN_RETENTION = "delta.setTransactionRetentionDuration"
"""A table with this property forgets which files are ingested."""
RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
READABLE_RETENTION = re.compile(r"interval \d+ ((nano|micro|milli)?second|minute|hour|day|week)s?")
"""deltalake takes its default for anything else, without a word: `60 days`, `INTERVAL 60 DAYS`, `interval 2 months`."""
WITH_FEATURES = 7
READER_VERSIONS, WRITER_VERSIONS = frozenset({1, 3}), frozenset({1, 2, 3, 4, WITH_FEATURES})
"""Those without features, and those that list them. 3 has CHECK constraints, 4 change data and generated columns."""
WRITER_FEATURES = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "checkConstraints", "generatedColumns", "changeDataFeed"}
)
READER_FEATURES = frozenset({"timestampNtz"})
ABSOLUTE = re.compile(r"/|[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The path of a data file that is not below the table. A relative one has its colons encoded."""


def reasons_for_spark(
    versions: tuple[int, int],
    reader_features: Collection[str],
    writer_features: Collection[str],
    properties: Mapping[str, str],
) -> Iterator[str]:
    """Why only Spark commits to a table, each to complete "Spark is needed for …". `versions`: of readers and
    writers."""
    reader, writer = versions
    if reader not in READER_VERSIONS or writer not in WRITER_VERSIONS:
        yield f"a table of reader version {reader} and writer version {writer}"
    others = {*writer_features} - WRITER_FEATURES | {*reader_features} - READER_FEATURES
    if others:
        yield f"a table with the feature {min(others)}"
    for name in RETENTIONS:
        if not READABLE_RETENTION.fullmatch(properties.get(name) or "interval 1 week"):
            yield f"a table whose {name} is {properties[name]!r} instead of, for example, 'interval 60 days'"
