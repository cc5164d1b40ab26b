"""What the race campaign can do, in words."""

from tests.proof.breaks import OVERWRITING_LOG, TXN_NOT_COMPARED
from tests.proof.campaign import Fault

OPERATIONS = ("VACUUM", "DELETE", "RESTORE", "OPTIMIZE", "ADD COLUMNS", "append")
"""By somebody else, while jobs ingest."""
UNREADABLE = "the log, or a data file that it names, cannot be read"
VARIANTS = {
    OVERWRITING_LOG: Fault(
        "of two jobs that commit the same version the first one's rows are gone, or both tear the log's file",
        rf"a job believes to have committed what is not in the log|{UNREADABLE}",
    ),
    TXN_NOT_COMPARED: Fault(
        "two jobs that planned from the same checkpoint both commit", r"entered more than once: [1-9]"
    ),
}
"""What becomes of a segment is for `race-calls`: here each job sweeps, which makes good what collectors do to each
other before anybody can see it."""
