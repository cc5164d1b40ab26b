"""Which data files of a table may have values that Blizzard has not written: by the commits that added them.

A commit of Blizzard's has a Txn of its own. One that only adds rows has written all of them; one that also takes some
out has copied what others may have changed. A commit of anybody else that says of no data file that it changes data, as
OPTIMIZE, changes no value.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from blizzard.errors import NotFound
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail, cannot_be_read, commit_key
from blizzard.state.identity import APP_ID_PREFIX
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

Found = TypeVar("Found")
PARALLEL_READS = 16


def files_of_others(store: ObjectStore, version: int, active: Collection[str]) -> frozenset[str]:
    """Those of the `active` data files of this version, by path below the table, whose rows may have values that were
    changed; all that are in no commit of Blizzard's, if the log does not go back to the first commit. Raises
    LogDamaged."""
    commits = DeltaLogTail(store).commits(WHOLE_LOG)
    is_ours = {commit.version: _is_ours(commit) for commit in commits if commit.version <= version}
    others = [version for version, ours in is_ours.items() if not ours]
    is_whole = 0 in is_ours
    if is_whole and not any(_each(store, others, _changes_data, if_gone=True)):
        return frozenset()
    ours = [version for version in is_ours if is_ours[version]]
    nothing = frozenset[str]()
    written = _each(store, ours, partial(_written, frozenset(active)), if_gone=nothing)
    return frozenset(active).difference(*written)


def _is_ours(commit: Commit) -> bool:
    return any(app_id.startswith(APP_ID_PREFIX) for app_id in commit.txns)


def _each(
    store: ObjectStore, versions: Collection[int], look: Callable[[bytes], Found], *, if_gone: Found
) -> Collection[Found]:
    """What is found in each commit; `if_gone`: in one that was cleaned up meanwhile."""
    found: dict[int, Found] = {}

    def read(version: int) -> None:
        try:
            found[version] = look(store.get(commit_key(version)))
        except NotFound:
            found[version] = if_gone
        except json_fields.MALFORMED as error:
            raise cannot_be_read(version, error) from error

    with ParallelCalls(PARALLEL_READS, name="log") as calls:
        for version in versions:
            calls.submit(partial(read, version))
    return found.values()


def _changes(data: bytes, kind: str) -> Iterator[Mapping[str, Any]]:
    """The data files that a commit says it adds or removes with what it changes."""
    for line in filter(None, data.split(b"\n")):
        if f'"{kind}"'.encode() in line:
            action = json_fields.mapping(json.loads(line))
            if kind in action and json_fields.mapping(action[kind]).get("dataChange", True):
                yield action[kind]


def _changes_data(data: bytes) -> bool:
    return any(_changes(data, "add"))


def _written(active: frozenset[str], data: bytes) -> frozenset[str]:
    if any(_changes(data, "remove")):
        return frozenset()
    return active.intersection(unquote(json_fields.text(add["path"])) for add in _changes(data, "add"))
