"""The calls of those who work in a small world, to what others use, too."""

import hashlib
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

from blizzard.errors import CommitOutcomeUnknown, StorageUnavailable
from blizzard.storage.base import ObjectInfo
from tests.proof.interleavings.processes import Call, Process
from tests.unit.fakes import MemoryRows

TABLE, COPY, PENDING, RECEIPTS, LETTERS, RUNS = (1 << number for number in range(6))
"""The areas that are shared: the table with its log, the checkpoint's copy, the manifest, and what jobs write for
others to read later."""
ALL = TABLE | COPY | PENDING | RECEIPTS | LETTERS | RUNS
OWN = RECEIPTS | LETTERS | RUNS
"""Objects whose names nobody else writes, or writes otherwise."""
COMMITS = ("append", "replace", "add")
_NO_COMMIT = CommitOutcomeUnknown("no answer came")
_NO_OBJECT = StorageUnavailable("no answer came, and tries are used up")


class Remote:
    """What a process has of the world's `state` or `table`: it stops before each call. Whatever it gets is a value."""

    uri = "memory://lake/"

    def __init__(self, process: Process, target: str) -> None:
        self._process = process
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        args = tuple([*arg] if isinstance(arg, Iterator) else arg for arg in args)
        if name == "delete" and not args[0]:
            return None
        call = _call(self._target, name, args, named)
        if name == "put" and call.writes & OWN:
            self._process.does(call)
            return _info(*args)
        return self.stop_at(call)

    def put_before_all(self, key: str, data: bytes) -> None:
        """A put at which it stops, though nobody else uses the name."""
        self.stop_at(_call(self._target, "put", (key, data), {}))

    def stop_at(self, call: Call) -> Any:
        answer = self._process.shares(call)
        return iter(answer) if isinstance(answer, tuple) else answer


def _call(target: str, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Call:
    def do(world: Any) -> Any:
        answer = getattr(getattr(world, target), name)(*args, **named)
        return tuple(answer) if isinstance(answer, Iterator) else answer

    what = args[0] if args and isinstance(args[0], str) else ", ".join(args[0]) if name == "delete" else ""
    text = f"{'table ' if target == 'table' else ''}{name} {what}".strip()
    key = (target, name, tuple(map(_key, args)), tuple((key, _key(value)) for key, value in sorted(named.items())))
    if target == "table":
        commits = name in COMMITS
        writes = TABLE if commits or name == "prepare" else 0
        return Call(text, key, do, TABLE, writes, _lasting(name, args), _NO_COMMIT if commits else None)
    area = _area(args[0])
    reads = 0 if name in ("put", "delete") else area
    writes = area if name in ("put", "create", "delete") else 0
    return Call(text, key, do, reads, writes, unanswered=_NO_OBJECT if writes else None)


def _lasting(name: str, args: tuple[Any, ...]) -> Callable[[Any], bool]:
    """A commit that is in the log stays as it is, and so does the table once it is there; a rule asks nobody."""
    if name == "commit_at":
        return lambda world: any(commit.version == args[0] for commit in world.delta.commits)
    return lambda world: name == "checkpoints_at" or (name == "prepare" and bool(world.delta.commits))


def _key(arg: Any) -> Hashable:
    if isinstance(arg, MemoryRows):
        return tuple(arg.rows)
    return tuple(arg) if isinstance(arg, list) else arg


def _area(what: str | list[str]) -> int:
    keys = [what] if isinstance(what, str) else what
    found = 0
    for key in keys:
        found |= next(area for part, area in AREAS.items() if part in key)
    return found


AREAS = {
    "/pending/": PENDING,
    "_checkpoint.json": COPY,
    "/receipts/": RECEIPTS,
    "/dead_letters/": LETTERS,
    "/ledger/": RUNS,
}
"""By part of the key."""


def _info(key: str, data: bytes) -> ObjectInfo:
    """As a put answers it; nobody asks for the time."""
    return ObjectInfo(key, len(data), hashlib.md5(data, usedforsecurity=False).hexdigest(), 0.0)
