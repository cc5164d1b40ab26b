"""Names of the steps and variants of the kill campaign; `steps.py` and `variants.py` map them to code of the
product."""

from enum import StrEnum

from tests.proof.breaks import BOTH_READS, LATE_LETTERS, NO_LOOK, NO_TXN, OLDER_STATE, READ_BEFORE, TXN_ALONE
from tests.proof.campaign import Fault
from tests.proof.widening import KEPT_BESIDE

IN_THE_WRITE = "in the write of a data file"
IN_A_MERGE = "in a merge of the ledger"
BETWEEN_CALLS = "between two calls of storage"
STEPS = (
    "before the read",
    IN_THE_WRITE,
    "after the read",
    "after the dead letters",
    "before the receipt",
    "before the commit",
    "in the commit",
    "after the commit and before its answer",
    "before the copy",
    "before the trim",
    "after the trim",
    "in recovery",
    "in the sweep",
    IN_A_MERGE,
    BETWEEN_CALLS,
)
JVM_STEPS = tuple(step for step in STEPS if step != "in the sweep")
"""Steps at which the job uses its JVM; it does not until its sweep is done."""
LOST_ANSWER = "when the answer of a commit is lost"
"""The job is not killed: the commit succeeds, and the job gets an error with unknown outcome."""
DAMAGED, DAMAGED_SHARE = "times that the ledger was damaged", 0.08
"""Count, and share of the jobs before which its runs are damaged."""
REPLACING = frozenset(
    {
        "before the read",
        "after the read",
        "before the receipt",
        "before the commit",
        "in the commit",
        "after the commit and before its answer",
        "before the copy",
        "in recovery",
        BETWEEN_CALLS,
        LOST_ANSWER,
    }
)
"""Steps that an operator comes to who has files replaced."""
GAVE_UP = frozenset({"source_failed", "spark_lost"})
"""What a job has to say that lost its JVM and cannot go on."""
MOST_CALLS = 60
"""Storage calls of one process, at most."""
SPARK_STARTED = "spark_started"
"""Log event of a job that begins to use a JVM."""
OPERATORS, OPERATORS_SHARE = "operators who had files replaced", 0.2
"""Count, and share of the lives that may be one of an operator."""
RANDOM_MOMENT = "at a random moment"
"""The campaign kills the process from outside."""


class Whom(StrEnum):
    """What is killed."""

    JOB = "the job"
    BOTH = "job and JVM"
    JVM = "the JVM alone"
    """The job keeps running, and must end by itself."""
    OWN = "a job with a JVM of its own"


DOUBLED = r"\bdoubled +[1-9]"
"""As the verdict prints it."""
MISSING, SILENT = r"\bmissing +[1-9]", r"\bsilent +[1-9]"
VARIANTS = {
    NO_TXN: Fault("a kill between rows and Txn leaves rows that the next job adds again", DOUBLED),
    NO_LOOK: Fault("a lost answer doubles the batch", DOUBLED),
    OLDER_STATE: Fault("a kill between commit and copy doubles the batch", DOUBLED),
    TXN_ALONE: Fault("a kill between Txn and rows loses the rows: the next job continues after them", MISSING),
    BOTH_READS: Fault("each record of a batch with a new field is there twice", DOUBLED),
    LATE_LETTERS: Fault("a kill between commit and dead letters loses bad records", SILENT),
    READ_BEFORE: Fault("the numbers that asked for the wider type are not in the column", KEPT_BESIDE),
}
WIDENED_VARIANTS = frozenset({READ_BEFORE})
"""Which only a table shows, a column of which is widened."""
SHORTEST = {
    NO_TXN: (("", 1), ("before the commit", 2)),
    NO_LOOK: ((LOST_ANSWER, 1),),
    OLDER_STATE: (("", 1), ("before the copy", 1)),
    TXN_ALONE: (("", 1), ("before the commit", 2)),
    BOTH_READS: (("", 1), ("", 1)),
    LATE_LETTERS: (("after the commit and before its answer", 1),) * 3,
    READ_BEFORE: (("", 1), ("", 1)),
}
"""For each variant, the steps that show it and at which occurrence each kills; the empty step is a job without a
kill."""
