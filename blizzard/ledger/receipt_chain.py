"""The receipts that a checkpoint reaches: each names the one before. Those of lost attempts are not among them."""

from collections.abc import Iterator, Mapping
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
    those of the chain. `known`: receipts in memory, by name."""

    def __init__(
        self,
        receipts: Receipts,
        *,
        parallel: int = PARALLEL_READS,
        known: Mapping[str, Receipt] = MappingProxyType({}),
    ) -> None:
        self._receipts = receipts
        self._parallel = parallel
        self._known = known

    def back_from(self, name: str | None, sequences: SequenceRange) -> Iterator[Receipt | MissingReceipts]:
        """The receipts of the commits `sequences`, newest first, from receipt `name` on, which is that of the newest
        of them or of an earlier commit. Together with the missing ones they cover all of `sequences`."""
        upper = sequences.last
        fetched: dict[str, Receipt] = {}
        while upper >= sequences.first:
            sequence = None if name is None else sequence_of(name)
            if name is None or sequence is None or not sequences.first <= sequence <= upper:
                break
            if sequence < upper:
                yield MissingReceipts(SequenceRange(sequence + 1, upper))
                upper = sequence
            if name not in fetched:
                fetched = self._fetch(name, max(sequences.first, sequence - PARALLEL_READS + 1), sequence)
            receipt = fetched.get(name)
            if receipt is None or receipt.sequence != sequence:
                break
            yield receipt
            name, upper = receipt.previous, sequence - 1
        if upper >= sequences.first:
            yield MissingReceipts(SequenceRange(sequences.first, upper))

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
