"""What has become of records that were read once more, and which dead letters are settled by it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import floor

from blizzard.errors import BlizzardError
from blizzard.log import Log
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.settled_letters import Mark, Scope, SettledLetters, Settlement
from blizzard.storage.base import ObjectStore
from spark_job.ports.reader import FileRows
from spark_job.repair.work import Fate, Item, Result, Work

NO_COMMIT = "the table has no commit of this source"


class Settler:
    """Of the results of one source's work. `clock` gives Unix seconds, `new_id` a short unique text; `state` is the
    table's store."""

    def __init__(
        self,
        identity: SourceIdentity,
        work: Work,
        *,
        state: ObjectStore,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Log,
    ) -> None:
        self._identity = identity
        self._work = work
        self._dead_letters = DeadLetters(state, identity.state_prefix, identity.source_id)
        self._settled = SettledLetters(state, identity.state_prefix)
        self._clock, self._new_id, self._log = clock, new_id, log
        self._expected: tuple[Sequence[Result], float] = (), 0.0

    def expect(self, results: Sequence[Result], began_ts: float) -> None:
        """What the next commit makes true, if it lands; it was planned at `began_ts` (Unix seconds). Without results:
        nothing, as one that changes the table's schema."""
        self._expected = results, began_ts

    def committed(self, *, sequence: int, version: int) -> None:
        """What was expected of the commit is true: ends the items, and settles their letters."""
        results, began_ts = self._expected
        self.expect((), began_ts)
        for result in results:
            if result.fate is Fate.DONE or result.rows:
                result.sequence, result.version = sequence, version
            self._work.end(result)
        self._settle(results, began_ts, (sequence, version))

    def settle_rest(self) -> None:
        """The letters of what was in the table already, or has been superseded."""
        self._settle([result for result in self._work.results if result.version is None], self._clock(), (None, None))

    def _settle(self, results: Iterable[Result], before_ts: float, commit: tuple[int | None, int | None]) -> None:
        """If storage refuses it, the letters look open, and the next replay repeats this."""
        results = [*results]
        anew = [one.item.path for one in results if one.fate is Fate.DONE and not one.item.is_of_records]
        etags = self._dead_letters.etags_of(anew)
        marks = tuple(mark for one in results for mark in marks_of(one, before_ts, etags.get(one.item.path, ())))
        if not marks:
            return
        try:
            self._settled.put(Settlement(self._clock(), *commit, marks), self._new_id())
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))


def marks_of(result: Result, before_ts: float, etags: Iterable[str]) -> Iterator[Mark]:
    """Of the letters that a result settles, written before this time. Those of a file that was read anew are all that
    there are now, of any content (`etags`); a content that comes later has letters of its own."""
    item, before_ts = result.item, floor(before_ts * 1000) / 1000  # letters have milliseconds
    if item.is_of_records:
        rows = item.records if result.fate is Fate.SUPERSEDED else result.settled
        if rows:
            yield Mark(item.path, Scope.RECORDS, before_ts, item.etag, rows)
    elif result.fate is Fate.DONE:
        for etag in sorted({item.etag, *etags}):
            yield Mark(item.path, Scope.ALL, before_ts, etag)
    elif result.fate in (Fate.IN_ALREADY, Fate.SUPERSEDED):
        yield Mark(item.path, Scope.FILE, before_ts, item.etag)


def refused_of(rows: FileRows) -> Mapping[str, Mapping[int, str]]:
    """By path and number, why a record was refused."""
    refused: dict[str, dict[int, str]] = {}
    if any(outcome.dead_records for outcome in rows.outcomes):
        for letter in rows.refused_records():
            refused.setdefault(letter.path, {})[letter.row or 0] = letter.error
    return refused


def result_of_records(
    item: Item, wanted: Collection[int], present: Collection[int], refused: Mapping[int, str]
) -> Result:
    """Of records that were read. `present`: those of the item that the table had already."""
    settled = tuple(sorted({*present, *wanted} - refused.keys()))
    fate = Fate.DONE if not refused else Fate.REFUSED
    reason = next(iter(refused.values()), None)
    return Result(item, fate, reason, rows=len(wanted) - len(refused), settled=settled, refused=refused)
