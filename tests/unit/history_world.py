"""A source with a long history: receipts of days, the table's log and the copy of the checkpoint, on any store."""

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.lives import Life
from blizzard.history.history import History, history_of
from blizzard.history.pack_file import PackedLine
from blizzard.history.packer import DAY_SECS, HistorySettings, Packer
from blizzard.history.packs import PackRef, get_packs, history_folder
from blizzard.ledger.entry import entries_of, merge_sorted
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.delta_log import WHOLE_LOG, DeltaLogTail, commit_key
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.storage.base import ObjectStore
from blizzard.storage.memory import MemoryStore
from tests.unit.operator_world import IDENTITY

SMALL = HistorySettings(commits=2, files=12, session_files=40, in_background=False, parallel_reads=1)
MONDAY = 1_795_392_000.0
"""The beginning of a day in UTC."""
FOLDER = history_folder(IDENTITY)
RECEIPTS = f"{IDENTITY.state_prefix}/receipts/"


@dataclass
class HistoryWorld:
    """`receipts`: of the commits, oldest first. `others`: how many versions of the table are of other writers."""

    store: ObjectStore
    settings: HistorySettings = SMALL
    now_ts: float = MONDAY
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(IDENTITY.pipeline, IDENTITY.source))
    receipts: list[Receipt] = field(default_factory=list)
    others: int = 0
    log: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def commit(self, *lines: ReceiptLine, history: str | None = None) -> None:
        """`history`: what the commit names from now on; None: what the one before has named."""
        sequence = self.checkpoint.sequence + 1
        stored = Receipts(self.store, IDENTITY.state_prefix)
        named = {"sequence": sequence, "previous": self.checkpoint.receipt, "now_ts": self.now_ts}
        stored.put(attempt="lost", lines=[line._replace(found_by="late") for line in lines], **named)
        receipt = stored.put(attempt="won", lines=lines, **named)
        self.receipts.append(receipt)
        self.checkpoint = replace(
            self.checkpoint,
            sequence=sequence,
            receipt=receipt.name,
            last_update_ts=self.now_ts,
            history=history or self.checkpoint.history,
        )
        info = {"timestamp": round(1000 * self.now_ts) + 7, "userMetadata": encode(self.checkpoint)}
        txn = {"appId": IDENTITY.app_id, "version": sequence}
        self._append({"commitInfo": info}, {"txn": txn})

    def other_commit(self) -> None:
        self._append({"commitInfo": {"timestamp": round(1000 * self.now_ts)}})
        self.others += 1

    def _append(self, *actions: Mapping[str, object]) -> None:
        version = len(self.receipts) + self.others - (1 if any("txn" in action for action in actions) else 0)
        body = "".join(json.dumps(action) + "\n" for action in actions)
        self.store.put(commit_key(version), body.encode())

    # -- packs

    def packer(self, store: ObjectStore | None = None) -> Packer:
        store = store or self.store
        commits: Callable[[], Iterable[object]] = lambda: DeltaLogTail(store).commits(WHOLE_LOG)  # noqa: E731
        return Packer(store, IDENTITY, commits, self.record, self.settings)

    def record(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def pack(self) -> str | None:
        """Packs until nothing is left to pack, and has the next commit name the result."""
        index = None
        for _ in range(50):
            made = self.packer().pack(self.checkpoint, self.now_ts)
            if made is None:
                return index
            index = made
            self.commit(history=made)
        raise AssertionError("there is always something more to pack")

    def packs(self) -> list[PackRef]:
        index = self.checkpoint.history
        return [] if index is None else [*get_packs(self.store, IDENTITY, index)]

    def history(self) -> History:
        return history_of(self.store, IDENTITY, self.checkpoint)

    # -- the truth

    def lives(self) -> list[Life]:
        """As `blizzard files` has them from the ledger, before it looks for their commits."""
        entries = merge_sorted(*(sorted(entries_of(receipt)) for receipt in self.receipts))
        return [
            Life(
                IDENTITY.source_id,
                entry.path,
                "committed",
                announced_ts=entry.time_ms / 1000,
                etag_committed=entry.etag,
                sequence=entry.sequence,
                rows=entry.rows,
                rejected=entry.rejected,
            )
            for entry in entries
        ]


def line(path: str, etag: str = "e1", **more: object) -> ReceiptLine:
    return ReceiptLine(path, etag, 10, 3, 0, MONDAY)._replace(**more)


def random_world(store: ObjectStore, seed: int) -> HistoryWorld:
    """Days with many commits and with few, large commits, empty ones, files that come again, other writers, and clocks
    that go back."""
    chance = random.Random(seed)
    world = HistoryWorld(store)
    for _ in range(chance.randint(1, 9)):
        for _ in range(chance.choice([0, 1, 1, 3, 8])):
            for _ in range(chance.choice([0, 0, 0, 2])):
                world.other_commit()
            names = chance.sample(
                ["a", "b/1", "b/2", "c d", "é", "z", "z/z", "0", "😀", "~"], chance.choice([0, 1, 4, 10])
            )
            world.commit(*(_line(chance, name) for name in names))
            world.now_ts += chance.choice([60.0, 3_600.0, -600.0])
        world.now_ts += chance.choice([0.0, DAY_SECS, 3 * DAY_SECS])
        if chance.random() < 0.4 and (index := world.packer().pack(world.checkpoint, world.now_ts)):
            world.commit(history=index)
    return world


def _line(chance: random.Random, name: str) -> ReceiptLine:
    path = name if chance.random() < 0.4 else f"{name}{chance.randrange(1000)}"
    found_by = chance.choice(["event", "sweep", "late", None])
    error = chance.choice([None, None, "torn"])
    repair = chance.choice([None, None, None, "whole", "records", "given"])
    facts = {
        "found_by": found_by,
        "error": error,
        "begins": True,
        "finished": chance.random() < 0.8,
        "repair": repair,
        "repairs": chance.choice([None, chance.randrange(20)]) if repair else None,
    }
    return line(path, chance.choice("ef"), **facts)


def memory_world() -> HistoryWorld:
    world = HistoryWorld(MemoryStore(lambda: world.now_ts))
    return world


def random_memory_world(seed: int) -> HistoryWorld:
    return random_world(MemoryStore(lambda: MONDAY), seed)


def days(world: HistoryWorld, *commits: int, files: int = 3) -> HistoryWorld:
    """So many commits on each day."""
    for day, count in enumerate(commits):
        world.now_ts = MONDAY + day * DAY_SECS
        for _ in range(count):
            world.now_ts += 60.0
            first = len(world.receipts) * files
            world.commit(*(line(f"f{number:05d}") for number in range(first, first + files)))
    return world


def answers(world: HistoryWorld, *, packed: bool = True) -> list[Life]:
    source = SimpleNamespace(state=world.store, identity=IDENTITY)
    checkpoint = world.checkpoint if packed else replace(world.checkpoint, history=None)
    return CommitFinder(source, checkpoint).complete(world.lives())


def stored(world: HistoryWorld) -> list[str]:
    return [info.key.removeprefix(FOLDER) for info in world.store.list(FOLDER)]


def found(world: HistoryWorld) -> dict[tuple[str, int], PackedLine]:
    return world.history().find((one.path, r.sequence) for r in world.receipts for one in r.lines)
