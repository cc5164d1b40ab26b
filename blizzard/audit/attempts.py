"""Letters of attempts that died, or lost their race. A later attempt has committed a row for the message, as after a
change of `schema`, or a letter of its own. Only a letter of a commit says what has become of a message."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

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
    partitions, the names of all receipts, and where a commit had several attempts, a receipt of the next one."""
    attempts = {key: attempts_of(letters, key, offsets) for key, offsets in wanted.items() if offsets}
    every = {attempt for of_key in attempts.values() for its in of_key.values() for attempt in its}
    failed = _failed(receipts, checkpoint, {attempt for attempt in every if attempt is not None}) if every else set()
    return {key: {offset for offset, its in of_key.items() if its <= failed} for key, of_key in attempts.items()}


def attempts_of(letters: DeadLetters, key: Key, offsets: Collection[int]) -> dict[int, set[str | None]]:
    """Those that have stored letters of these messages, by offset. None: nobody knows which one."""
    wanted, found = {*offsets}, dict[int, set[str | None]]()
    for attempt, letter in letters.of_all_attempts(*key):
        row = letter.get("row")
        if isinstance(row, int) and row in wanted and "lost_from" not in letter:
            found.setdefault(row, set()).add(attempt)
    return found


def _failed(receipts: Receipts, checkpoint: TopicCheckpoint, attempts: set[str]) -> set[str | None]:
    """Those without a commit. A commit has its receipt before, so that an attempt without one made none, unless
    receipts are gone."""
    committed, sequence = set[str | None](), -1
    for named, names in _by_sequence(receipts.names(0, checkpoint.sequence)):
        if named > sequence + 1:
            return set()
        sequence, of_letters = named, [name for name in names if attempt_of(name) in attempts]
        alone = len(names) == 1 and sequence < checkpoint.sequence
        found = of_letters if alone else [one for one in of_letters if _may_be_of_a_commit(one, receipts, checkpoint)]
        committed.update(map(attempt_of, found))
    if sequence < checkpoint.sequence:
        return set()
    return {attempt for attempt in attempts if attempt not in committed}


def _by_sequence(names: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    return ((sequence, [*some]) for sequence, some in groupby(names, lambda name: sequence_of(name) or 0))


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
