"""How many rows of a source a commit of the table has taken out, by the data files that it removed and added; and so,
why rows of it are gone."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

from blizzard.audit.deletions import Deletions, deletions_of
from blizzard.errors import DataFileDamaged, NotFound, StorageError
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail, commit_key
from blizzard.state.delta_protocol import ABSOLUTE
from blizzard.state.identity import SourceIdentity
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.table.added_files import MAX_TIME, AddedFile
from blizzard.table.row_runs import rows_of
from blizzard.table.source_column import SourceColumn

MAX_DATA_FILES = 100
"""Of a commit with more of them nobody looks."""
AT_ONCE = 8
UNKNOWN = (StorageError, DataFileDamaged, *json_fields.MALFORMED)
"""Why a removed data file tells nothing: VACUUM has deleted it, or it was archived, for example."""


class SourceOfTable(Protocol):
    """`state`: the table, with the source's state."""

    @property
    def identity(self) -> SourceIdentity: ...

    @property
    def state(self) -> ObjectStore: ...


@dataclass(frozen=True, slots=True)
class TakenOut:
    """Called with a commit. Infinity: nobody knows, as of one with deletion vectors, or whose data files are gone."""

    source: SourceOfTable

    def __call__(self, commit: Commit) -> float:
        try:
            actions = [*_file_actions(self.source.state.get(commit_key(commit.version)))]
            changes = {kind: [action[kind] for action in actions if kind in action] for kind in ("remove", "add")}
            if len(actions) > MAX_DATA_FILES or any(map(_is_in_part, [*changes["remove"], *changes["add"]])):
                return math.inf
            return max(0, self._rows(changes["remove"]) - self._rows(changes["add"]))
        except UNKNOWN:
            return math.inf

    def _rows(self, files: Iterable[Mapping[str, Any]]) -> int:
        counts: list[int] = []

        def count(file: Mapping[str, Any]) -> None:
            counts.append(self._rows_of(file))

        with ParallelCalls(AT_ONCE, name="taken-out") as calls:
            for file in files:
                calls.submit(partial(count, file))
        return sum(counts)

    def _rows_of(self, file: Mapping[str, Any]) -> int:
        path, size = json_fields.text(file["path"]), json_fields.optional_number(file.get("size"))
        if size is None:
            info = self.source.state.head(unquote(path))
            if info is None:
                raise NotFound(f"the data file {unquote(path)} is not there")
            size = info.size
        unknown = None, None
        column = SourceColumn(
            self.source.state, AddedFile(path, int(size), 0, None, None, unknown, unknown, unknown, MAX_TIME)
        )
        return sum(rows.num_rows for rows in rows_of(column, self.source.identity.source_id, ["source"]))


def _file_actions(data: bytes) -> Iterable[Mapping[str, Any]]:
    for line in filter(None, data.split(b"\n")):
        action = json_fields.mapping(json.loads(line))
        if "add" in action or "remove" in action:
            yield action


def _is_in_part(file: Mapping[str, Any]) -> bool:
    """Whether it is not in the table's folder, or not all of its rows are meant."""
    return bool(file.get("deletionVector") or ABSOLUTE.match(json_fields.text(file["path"])))


def explained(source: SourceOfTable, gone: Mapping[int, int], version: int | None) -> Deletions:
    """Why rows are gone, as of this version of the table. `gone`: as of `deletions_of`."""
    commits = DeltaLogTail(source.state).commits(WHOLE_LOG) if gone else ()
    of_version = (commit for commit in commits if commit.version <= (version or 0))
    return deletions_of(gone, of_version, source.identity.app_id, TakenOut(source))
