"""What the kill campaign can do, in words; the parts of the product that it means are known to its lives alone."""

from tests.proof.breaks import NO_LOOK, NO_TXN, OLDER_STATE
from tests.proof.campaign import Fault

BETWEEN_CALLS = "between two calls of storage"
STEPS = (
    "before the read",
    "in the write of a data file",
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
    BETWEEN_CALLS,
)
LOST_ANSWER = "when the answer of a commit is lost"
"""It does not die: it is told that nobody knows, though the commit has landed."""
RANDOM_MOMENT = "at a random moment"
"""Nothing in the life knows of it: the campaign kills."""

DOUBLED = r"\bdoubled +[1-9]"
"""As the verdict has it."""
VARIANTS = {
    NO_TXN: Fault("a kill between rows and Txn leaves rows that the next job adds again", DOUBLED),
    NO_LOOK: Fault("a lost answer doubles the batch", DOUBLED),
    OLDER_STATE: Fault("a kill between commit and copy doubles the batch", DOUBLED),
}
SHORTEST = {
    NO_TXN: (("", 1), ("before the commit", 2)),
    NO_LOOK: ((LOST_ANSWER, 1),),
    OLDER_STATE: (("", 1), ("before the copy", 1)),
}
"""For each variant the steps that show it, and at which time each is reached; the empty one is a life that lives."""
