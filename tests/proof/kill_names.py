"""What the kill campaign can do, in words; the parts of the product that it means are known to its lives alone."""

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
    "between two calls of storage",
)
LOST_ANSWER = "when the answer of a commit is lost"
"""It does not die: it is told that nobody knows, though the commit has landed."""
RANDOM_MOMENT = "at a random moment"
"""Nothing in the life knows of it: the campaign kills."""
VARIANTS = {
    "rows are committed without their Txn": "a kill between rows and Txn leaves rows that the next job adds again",
    "a commit is tried again without a look at what became of it": "a lost answer doubles the batch",
    "an older state is taken for the current one": "a kill between commit and copy doubles the batch",
}
