"""Names of the race campaign."""

from tests.proof.breaks import NARROWER_WINS, OVERWRITING_LOG, ROWS_LEFT_OUT, TXN_NOT_COMPARED
from tests.proof.campaign import Fault
from tests.proof.widening import NARROWED

NARROW_SOURCE, WIDE_SOURCE = "events:landing", "others:partner"
"""So named where it matters, for broken variants that need a column which is widened: jobs race for the second one."""
OPERATIONS = ("VACUUM", "DELETE", "RESTORE", "OPTIMIZE", "ADD COLUMNS", "append")
"""Operations of another writer while jobs ingest."""
MISSING = "never entered the table"
FORGOTTEN = "rows whose values in new columns a DELETE of Delta has lost"
"""A count."""
TORN = "a commit in the log is no JSON"
UNREADABLE = "a data file that the log names cannot be read"
SMALLER = "(the smallest race that failed as well, of so many that were tried: {})"
NOT_SMALLER = "(smaller races that were tried, and did not fail: {})"
VARIANTS = {
    OVERWRITING_LOG: Fault(
        "of two jobs that commit the same version the first one's rows are gone, or both tear the log's file",
        rf"a job believes to have committed what is not in the log|{TORN}",
    ),
    TXN_NOT_COMPARED: Fault(
        "two jobs that planned from the same checkpoint both commit", r"entered more than once: [1-9]"
    ),
    ROWS_LEFT_OUT: Fault(
        "the state claims files of the job that lost, of which no row is in the table",
        rf"{MISSING}: [1-9]",
    ),
    NARROWER_WINS: Fault("of two jobs that widen a column at once the second one makes it narrower again", NARROWED),
}
"""Segments belong to `race-calls`: here each job sweeps, which repairs lost segments before anybody can see them."""
WIDENED_VARIANTS = frozenset({NARROWER_WINS})
"""Which only a table shows, a column of which is widened."""
SOURCES = {NARROW_SOURCE: "landing", WIDE_SOURCE: "partner"}
"""Two pipelines on one table: folder by source id."""
