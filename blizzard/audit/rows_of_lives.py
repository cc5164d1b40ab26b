"""How many rows of committed files the table has today: somebody may have deleted them since."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.lives import Life
from blizzard.audit.ranges import Ranges
from blizzard.audit.snapshot import Snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.table_rows import LOST, RowsPlan, rows_plan
from blizzard.errors import NotFound
from blizzard.state.delta_log import LAST_CHECKPOINT
from blizzard.storage import json_fields
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.table.active_files import active_files
from blizzard.table.added_files import AddedFile

MAX_DATA_FILES = 100
"""Of more, the rows are not looked at: `blizzard audit` does."""
MAX_ACTIONS = 50_000
"""Of a table's log; deltalake holds them in memory."""
AT_ONCE = 8

Content = tuple[str, str]
"""The path and the etag of a file."""


def with_rows(source: AuditedSource, snapshot: Snapshot, lives: Iterable[Life]) -> list[Life]:
    """With `rows_found` of those of which a commit brought rows, whatever waits or was refused since, and what it means
    if these are not all."""
    found = [*lives]
    wanted = {life.path for life in found if life.etag_committed and life.rows}
    if not wanted or snapshot.version is None or _actions(source) > MAX_ACTIONS:
        return found
    active = active_files(source.table_uri, snapshot.version, source.s3)
    plan = rows_plan(source, Ranges(()), active)
    numbers = [number for number, file in enumerate(plan.files) if file.may_have(wanted)]
    if active.problem is not None or len(numbers) > MAX_DATA_FILES:
        return found
    counted = _counted(plan, numbers, wanted)
    return [_with(life, counted) if life.path in wanted else life for life in found]


def _actions(source: AuditedSource) -> int:
    """Of the newest Delta checkpoint; 0 if there is none that says so."""
    try:
        return json_fields.natural(json.loads(source.state.get(LAST_CHECKPOINT))["size"])
    except (NotFound, *json_fields.MALFORMED):
        return 0


@dataclass(frozen=True, slots=True)
class _Counted:
    """`lost`: data files whose rows cannot be read; nothing of them is in `rows`."""

    rows: Counter[Content]
    lost: Sequence[AddedFile]


def _counted(plan: RowsPlan, numbers: Sequence[int], wanted: Iterable[str]) -> _Counted:
    parts, lost, paths = list[Counter[Content]](), list[AddedFile](), _as_array(wanted)
    with ParallelCalls(AT_ONCE, name="rows") as calls:
        for number in numbers:
            calls.submit(partial(_count, plan, number, paths, parts, lost))
    return _Counted(sum(parts, Counter[Content]()), lost)


def _as_array(paths: Iterable[str]) -> pa.Array:
    """Without those that no table can have, since they are not valid UTF-8."""
    return pa.array([path for path in paths if path.encode(errors="replace").decode() == path], pa.string())


def _count(plan: RowsPlan, number: int, wanted: pa.Array, parts: list[Counter[Content]], lost: list[AddedFile]) -> None:
    """Of other files, of which the data file may have very many, nothing is counted."""
    counts = Counter[Content]()
    try:
        for rows in plan.read(number, "source", "file", "etag"):
            rows = rows.filter(pc.is_in(rows["file"], wanted))
            found = rows.group_by(["file", "etag"]).aggregate([([], "count_all")])
            for path, etag, count in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
                counts[path, etag or ""] += count
    except LOST:
        lost.append(plan.files[number])
    else:
        parts.append(counts)


def _with(life: Life, counted: _Counted) -> Life:
    count, rows = counted.rows[life.path, life.etag_committed or ""], life.rows or 0
    if count == rows:
        return replace(life, rows_found=count)
    fewer = f"{rows - count:,} of its {rows:,} rows are no longer in the table: " + (
        "a data file that may have them is lost; `blizzard audit` names it"
        if any(file.may_have({life.path}) for file in counted.lost)
        else "somebody has deleted them, or restored it"
    )
    more = f"the table has {count:,} rows of it, and its commits brought {rows:,}: `blizzard audit` says more"
    reason = "; ".join(filter(None, (life.reason, fewer if count < rows else more)))
    return replace(life, rows_found=count, reason=reason)
