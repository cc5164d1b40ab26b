"""Letters of messages that are also rows: an attempt that died, or lost its race, left them, and a later one committed
the row, as after a change of `schema`. Such a letter says nothing of the table; one of a commit does."""

from collections.abc import Collection, Mapping

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.receipts import Receipts, attempt_of, sequence_of
from blizzard.state.topic_checkpoint import TopicCheckpoint

Key = tuple[str, str]
"""A partition's path, and the id of its topic."""


def without_commit(
    letters: DeadLetters, receipts: Receipts, checkpoint: TopicCheckpoint, wanted: Mapping[Key, Collection[int]]
) -> dict[Key, set[int]]:
    """Those of the `wanted` messages, by offset, of which every letter is of an attempt that no commit up to
    `checkpoint` has. Where that cannot be known, a letter counts as one of a commit. Reads the letters of these
    partitions, the names of all receipts, and one receipt for each attempt."""
    attempts = {key: _attempts(letters, key, offsets) for key, offsets in wanted.items() if offsets}
    every = {attempt for of_key in attempts.values() for its in of_key.values() for attempt in its}
    failed = _failed(receipts, checkpoint, {attempt for attempt in every if attempt is not None}) if every else set()
    return {key: {offset for offset, its in of_key.items() if its <= failed} for key, of_key in attempts.items()}


def _attempts(letters: DeadLetters, key: Key, offsets: Collection[int]) -> dict[int, set[str | None]]:
    wanted, found = {*offsets}, dict[int, set[str | None]]()
    for attempt, letter in letters.of_all_attempts(*key):
        row = letter.get("row")
        if isinstance(row, int) and row in wanted and "lost_from" not in letter:
            found.setdefault(row, set()).add(attempt)
    return found


def _failed(receipts: Receipts, checkpoint: TopicCheckpoint, attempts: set[str]) -> set[str | None]:
    """Those without a commit. A commit has its receipt before, so that an attempt without one made none, unless
    receipts are gone."""
    named, sequence = list[str](), -1
    for name in receipts.names(0, checkpoint.sequence):
        before, sequence = sequence, sequence_of(name) or 0
        if sequence > before + 1:
            return set()
        if attempt_of(name) in attempts:
            named.append(name)
    if sequence < checkpoint.sequence:
        return set()
    committed = {attempt_of(name) for name in named if _may_be_of_a_commit(name, receipts, checkpoint)}
    return {attempt for attempt in attempts if attempt not in committed}


def _may_be_of_a_commit(name: str, receipts: Receipts, checkpoint: TopicCheckpoint) -> bool:
    """Whoever tries the next commit begins at this one, and its receipt names the one of this commit."""
    sequence = sequence_of(name) or 0
    if sequence == checkpoint.sequence:
        return checkpoint.receipt in (name, None)
    for following in receipts.names(sequence + 1, sequence + 1):
        try:
            previous = receipts.get(following).previous
        except (NotFound, UnreadableState):
            continue
        if previous is not None:  # else the state was rebuilt, without the name
            return previous == name
    return True
