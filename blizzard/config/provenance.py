"""Names of columns that are not the user's, and the fields of the column that says where a row is from."""

PROVENANCE = "_source"
PROVENANCE_DDL = "source STRING, file STRING, row BIGINT, etag STRING, modified TIMESTAMP, sequence BIGINT"
"""The fields of every table's `_source`. Tables that zip files have reached have one more."""
RESERVED = "_blizzard"
"""How names begin that no column may have."""
