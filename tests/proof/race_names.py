"""What the race campaign can do, in words."""

OPERATIONS = ("OPTIMIZE", "VACUUM", "DELETE", "RESTORE", "ADD COLUMNS", "append")
"""By somebody else, while jobs ingest."""
OVERWRITING_LOG = "a commit is not a put-if-absent"
TXN_NOT_COMPARED = "the Txn's version is not compared"
UNCONDITIONAL_PUT = "a segment is written by an unconditional PUT"
VARIANTS = {
    OVERWRITING_LOG: "of two jobs that commit the same version the first one's rows are gone",
    TXN_NOT_COMPARED: "two jobs that planned from the same checkpoint both commit",
    UNCONDITIONAL_PUT: "of two writers of the same segment the first one's entries are gone",
}
