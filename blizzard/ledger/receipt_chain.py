"""The receipts that a checkpoint reaches: each names the one before. Those of lost attempts are not among them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.receipts import Receipt, Receipts, sequence_of
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_READS = 32


@dataclass(frozen=True, slots=True)
class MissingReceipts:
    """Commits whose receipts cannot be read, or that had none. Only the table knows their files."""

    sequences: SequenceRange


class ReceiptChain:
    """Follows receipts backwards. They are fetched in windows, in parallel, since the names of a listing usually are
    those of the chain. `known`: receipts in memory, by name. `named_by_commits`: the receipt that the newest commit up
    to a sequence names, where a receipt cannot be read that would say so; None if nobody knows."""

    def __init__(
        self,
        receipts: Receipts,
        *,
        parallel: int = PARALLEL_READS,
        known: Mapping[str, Receipt] = MappingProxyType({}),
        named_by_commits: Callable[[int], str | None] = lambda sequence: None,
    ) -> None:
        self._receipts = receipts
        self._parallel = parallel
        self._known = known
        self._named_by_commits = named_by_commits

    def back_from(self, name: str | None, sequences: SequenceRange) -> Iterator[Receipt | MissingReceipts]:
        """The receipts of the commits `sequences`, newest first, from receipt `name` on, which is that of the newest
        of them or of an earlier commit. Together with the missing ones they cover all of `sequences`."""
        first, upper, below = sequences.first, sequences.last, sequences.last + 1
        fetched: dict[str, Receipt] = {}
        while below > first:
            sequence = _sequence_within(name, first, below)
            if sequence is None:
                name = self._named_by_commits(below - 1)
                sequence = _sequence_within(name, first, below)
            if name is None or sequence is None:
                break
            below = sequence
            if name not in fetched:
                fetched = self._fetch(name, max(first, below - PARALLEL_READS + 1), below)
            receipt = fetched.get(name)
            if receipt is None or receipt.sequence != below:
                name = None
                continue
            if below < upper:
                yield MissingReceipts(SequenceRange(below + 1, upper))
            yield receipt
            name, upper = receipt.previous, below - 1
        if upper >= first:
            yield MissingReceipts(SequenceRange(first, upper))

    def _fetch(self, name: str, first: int, last: int) -> dict[str, Receipt]:
        """The readable receipts of the sequences `first` through `last`, and the receipt `name`."""
        if name in self._known:
            return dict(self._known)
        names = {name} if first == last else {name, *self._receipts.names(first, last)} - self._known.keys()
        found = dict(self._known)
        with ParallelCalls(min(self._parallel, len(names)), name="receipts") as calls:
            for each in names:
                calls.submit(partial(self._read, each, found))
        return found

    def _read(self, name: str, found: dict[str, Receipt]) -> None:
        try:
            found[name] = self._receipts.get(name)
        except (NotFound, UnreadableState):
            return


def _sequence_within(name: str | None, first: int, below: int) -> int | None:
    """The sequence in a receipt's name, if it is from `first` to before `below`."""
    sequence = None if name is None else sequence_of(name)
    return sequence if sequence is not None and first <= sequence < below else None
