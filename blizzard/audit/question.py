"""Which files a question is about, decided by columns: of a window of the ledger and of what is listed there. Nothing
becomes an object of Python but the paths that may be among the answers."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import floor
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.reach import Fate
from blizzard.ledger.entry import DONE_STATES, LedgerEntry
from blizzard.ledger.windows import Window, WindowBlock
from blizzard.storage.base import ObjectInfo

_DONE = pa.array(sorted(DONE_STATES), pa.uint8())
NO_PATHS = pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class Question:
    """`since_ts`: files that came since, in Unix seconds; None: whenever. `states`: only these; none: all.
    `expression`: of the paths, as `bytes_expression` makes it; None: all."""

    since_ts: float | None = None
    states: frozenset[str] = frozenset()
    expression: str | None = None

    @property
    def leaves_committed_out(self) -> bool:
        return bool(self.states) and Fate.COMMITTED not in self.states

    @property
    def is_everything(self) -> bool:
        return self.since_ts is None and self.expression is None and not self.leaves_committed_out


def may_be_wanted(question: Question, window: Window, listed: Sequence[ObjectInfo]) -> list[str]:
    """The sorted paths of those files in the window that the question asks for, and maybe of others. `listed`: all
    objects there. Raises RunUnreadable."""
    rows = _Rows(window, listed)
    found: pa.Array | None = None
    if question.since_ts is not None:
        found = rows.since(question.since_ts)
    if question.leaves_committed_out and (found is None or len(found)):
        uncommitted = rows.not_as_committed()
        found = uncommitted if found is None else found.filter(pc.is_in(found, uncommitted))
    if question.expression is not None and (found is None or len(found)):
        found = _having(rows.all() if found is None else found, question.expression)
    found = rows.all() if found is None else found
    paths = (path.decode("utf-8", "surrogatepass") for path in pc.unique(found).to_pylist())
    return sorted(filter(window.has, paths))


def _having(paths: pa.Array, expression: str) -> pa.Array:
    """Those that have the expression; all if it is too long for RE2."""
    try:
        return paths.filter(pc.match_substring_regex(paths, rf"\A(?:{expression})\z"))
    except pa.ArrowInvalid:
        return paths


@dataclass
class _Rows:
    """The files of a window. Each method gives paths, of which some may come twice, and some not be in the window."""

    window: Window
    listed: Sequence[ObjectInfo]
    _paths: dict[tuple[str, int], pa.Array] = field(default_factory=dict)

    def all(self) -> pa.Array:
        return _joined([self._keys, self._recent_paths(), *map(self._paths_of, self.window.blocks)])

    def since(self, ts: float) -> pa.Array:
        """Those that came since, by their announcement or by the object."""
        time_ms = max(0, floor(ts * 1000) - 1)
        parts = [_encoded(info.key for info in self.listed if info.modified_ts >= ts)]
        parts.append(self._recent_paths(lambda entry: entry.time_ms >= time_ms))
        for block in self.window.blocks:
            times = block.column(attrgetter("times_ms"))
            chosen = pc.greater_equal(_from_buffer(pa.uint64(), times, len(times)), pa.scalar(time_ms, pa.uint64()))
            parts += self._chosen(block, chosen)
        return _joined(parts)

    def not_as_committed(self) -> pa.Array:
        """All but those that are ingested to their end, and have the content still, or no object any more."""
        parts = [self._recent_paths(lambda entry: not entry.is_done)]
        for block in self.window.blocks:
            states = block.column(attrgetter("states"))
            if states.translate(None, _DONE_BYTES):
                parts += self._chosen(block, pc.invert(pc.is_in(_from_buffer(pa.uint8(), states, len(states)), _DONE)))
        return _joined([*parts, *self._of_other_content()]) if self.listed else _joined(parts)

    def _of_other_content(self) -> list[pa.Array]:
        """Listed ones that the ledger does not have, or has with another etag."""
        blocks = [block for block in self.window.blocks if block.within(self._listed_paths)]
        paths = _joined([self._recent_paths(), *map(self._paths_of, blocks)])
        etags = _joined(
            [
                _encoded(entry.etag for entry in self.window.recent),
                *(_encoded(block.column(attrgetter("etags"))) for block in blocks),
            ]
        )
        place = pc.index_in(paths, self._keys)
        is_listed = pc.is_valid(place)
        paths, etags, place = (column.filter(is_listed) for column in (paths, etags, place))
        differs = pc.not_equal(etags, _encoded(info.etag for info in self.listed).take(place))
        return [paths.filter(differs), self._keys.filter(pc.invert(pc.is_in(self._keys, paths)))]

    @cached_property
    def _listed_paths(self) -> list[str]:
        return [info.key for info in self.listed]

    @cached_property
    def _keys(self) -> pa.Array:
        return _encoded(self._listed_paths)

    def _recent_paths(self, is_chosen: Callable[[LedgerEntry], bool] = lambda entry: True) -> pa.Array:
        return _encoded(entry.path for entry in self.window.recent if is_chosen(entry))

    def _paths_of(self, block: WindowBlock) -> pa.Array:
        key = block.ref.name, block.number
        if key not in self._paths:
            self._paths[key] = pa.array(block.column(attrgetter("paths")), pa.binary())
        return self._paths[key]

    def _chosen(self, block: WindowBlock, chosen: pa.Array) -> list[pa.Array]:
        return [self._paths_of(block).filter(chosen)] if pc.any(chosen).as_py() else []


_DONE_BYTES = bytes(DONE_STATES)


def _joined(parts: Collection[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else NO_PATHS


def _encoded(texts: Iterable[str]) -> pa.Array:
    given = [*texts]
    try:
        return pa.array(given, pa.string()).cast(pa.binary())
    except UnicodeEncodeError:  # of surrogates
        return pa.array([text.encode("utf-8", "surrogatepass") for text in given], pa.binary())


def _from_buffer(kind: pa.DataType, values: object, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])
