"""Rows of a table that no configured source has brought: those that name no source, and those of other sources."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from blizzard.state.identity import APP_ID_PREFIX
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import ever_committed

SHOWN_FILES = 5
"""So many data files are named of each."""


@dataclass(frozen=True, slots=True)
class Strangers:
    """Rows that name the same source, which is not configured for the table; `source` None: they name none.
    `committed`: whether Blizzard has committed for it, by its Txn. `data_files`: some that have such rows."""

    source: str | None
    rows: int
    committed: bool
    data_files: Sequence[str] = field(default=())


def strangers_of(
    counted: Iterable[tuple[str | None, int, str]],
    known: Collection[str],
    ever_committed: Callable[[Collection[str]], Collection[str]],
) -> list[Strangers]:
    """`counted`: source, number of rows, data file. `known`: the sources that are configured for the table.
    `ever_committed`: which of some sources have a Txn in it."""
    rows: dict[str | None, int] = {}
    files: dict[str | None, dict[str, None]] = {}
    for source, count, file in counted:
        if source not in known:
            rows[source] = rows.get(source, 0) + count
            files.setdefault(source, {})[file] = None
    named = [source for source in rows if source is not None]
    committed = ever_committed(named) if named else ()
    return [
        Strangers(source, rows[source], source in committed, [*islice(files[source], SHOWN_FILES)])
        for source in sorted(rows, key=lambda source: (source is not None, source or ""))
    ]


def sources_committed_to(table_uri: str, version: int, s3: S3Settings) -> Callable[[Collection[str]], Collection[str]]:
    """Which of some sources have a Txn in this version of a table, whose `active_files` have no problem."""
    return partial(_committed, table_uri, version, s3)


def _committed(table_uri: str, version: int, s3: S3Settings, sources: Collection[str]) -> set[str]:
    by_app_id = {f"{APP_ID_PREFIX}{source}": source for source in sources}
    return {by_app_id[app_id] for app_id in ever_committed(table_uri, version, s3, by_app_id)}


def by_kind(strangers: Iterable[Strangers]) -> Mapping[str, list[Strangers]]:
    """Under the names that an audit gives them."""
    found: dict[str, list[Strangers]] = {}
    for each in strangers:
        of_others = "rows_of_other_sources" if each.committed else "rows_of_unknown_sources"
        found.setdefault("rows_of_nobody" if each.source is None else of_others, []).append(each)
    return found
