"""A source with a ledger of several runs, receipts that no run has, announcements and objects, all by chance."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from blizzard.audit.lives import Life, Lives
from blizzard.audit.question import Question
from blizzard.audit.source import AuditedSource
from blizzard.ledger.entry import entries_of, merge_sorted
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.run import write_run
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, FoundBy
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.delta_log import commit_key
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.state.run_ref import RunRef, SequenceRange
from blizzard.storage.base import ObjectStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3_connection import S3Settings
from tests.unit.operator_world import IDENTITY

BEGIN_TS = 1_795_392_000.0
END_TS = BEGIN_TS + 10_000.0
NAMES = ("a", "a/1", "a/b/1", "a-", "b/é", "b/😀", "c d", "d/*", "d/[x]", "é", "z/z", "0", "~", "d", "\uffff/x")
GLOBS = ("**", "a/**", "*", "*/*", "**/1*", "b/?", "b/[é-ü]*", "{a,z}/**", "d/[*]*", "?", "c d*", "nothing", "**/😀*")


@dataclass(frozen=True)
class StoredSource(AuditedSource):
    """Its files and its state are in these stores."""

    objects: ObjectStore
    table: ObjectStore

    @property
    def files(self) -> ObjectStore:
        return self.objects

    @property
    def state(self) -> ObjectStore:
        return self.table


def source_of(objects: ObjectStore, table: ObjectStore, **more: object) -> StoredSource:
    facts = {
        "identity": IDENTITY,
        "uri": "memory://landing/",
        "table_uri": "memory://table/",
        "s3": S3Settings(),
        "pattern": "**",
        "prefix_template": None,
        "lookback": 1,
        "settle_delay_secs": 0.0,
        "late_overlap_secs": 500.0,
        "late_interval_secs": 86_400.0,
        "quiet_secs": 86_400.0,
        "overwrites_count": True,
        "slice_bytes": 1 << 30,
    }
    return StoredSource(**{**facts, **more}, objects=objects, table=table)


def put_state(store: ObjectStore, checkpoint: Checkpoint) -> None:
    """As the newest commit, and its copy."""
    text = encode(checkpoint)
    txn = {"appId": IDENTITY.app_id, "version": checkpoint.sequence}
    actions = ({"commitInfo": {"timestamp": 0, "userMetadata": text}}, {"txn": txn})
    store.put(commit_key(0), "".join(json.dumps(action) + "\n" for action in actions).encode())
    store.put(IDENTITY.copy_key, text.encode())


def put_run(store: ObjectStore, receipts: list[Receipt]) -> RunRef:
    """Of neighbouring commits."""
    entries = [*merge_sorted(*(sorted(entries_of(receipt)) for receipt in receipts))]
    sequences = SequenceRange(receipts[0].sequence, receipts[-1].sequence)
    return write_run(
        store,
        ledger_folder(IDENTITY),
        entries,
        sequences=sequences,
        previous=receipts[0].previous,
        source_id=IDENTITY.source_id,
        run_id="0",
        max_files=max(1, len(entries)),
    ).ref


@dataclass
class LivesWorld:
    """`names`: with which the paths begin; none: there are no files."""

    chance: random.Random
    table: ObjectStore
    names: Sequence[str] = NAMES
    now_ts: float = BEGIN_TS

    def __post_init__(self) -> None:
        self.objects = MemoryStore(lambda: self.now_ts)
        self.paths = sorted({self._name() for _ in range(self.chance.choice([0, 5, 60])) if self.names})
        self._land()
        receipts = self._commits()
        pattern = self.chance.choice(["**", "**", "[a-d]*/**"])
        self.source = source_of(self.objects, self.table, pattern=pattern, overwrites_count=self.chance.random() < 0.5)
        if receipts:
            put_state(self.table, self._checkpoint(receipts))
        self._announce()

    def _name(self) -> str:
        name = self.chance.choice(self.names)
        return name if self.chance.random() < 0.3 else f"{name}{self.chance.randrange(40)}"

    def _some(self) -> list[str]:
        return self.chance.sample(self.paths, self.chance.randint(0, len(self.paths)))

    def _land(self) -> None:
        for path in self._some() if self.chance.random() < 0.8 else ():
            self.now_ts = BEGIN_TS + 1_000 * self.chance.randrange(10)
            self.objects.put(path, self.chance.choice([b"x", b"y"]))

    def _commits(self) -> list[Receipt]:
        found, receipts = list[Receipt](), Receipts(self.table, IDENTITY.state_prefix)
        for sequence in range(self.chance.choice([0, 1, 7, 12, 12])):
            lines = [self._line(path) for path in self._some()]
            previous = found[-1].name if found else None
            found.append(receipts.put(sequence=sequence, attempt="a", previous=previous, now_ts=BEGIN_TS, lines=lines))
        return found

    def _line(self, path: str) -> ReceiptLine:
        """Mostly of the content that there is, to its end."""
        chance, info = self.chance, self.objects.head(path)
        etag = (
            info.etag
            if info is not None and chance.random() < 0.8
            else chance.choice(["e1", "0" * 32, "0" * 32 + "-2"])
        )
        event_ts = chance.choice([0.0, BEGIN_TS + 1_000 * chance.choice([2, 5, 8]), BEGIN_TS + 1_000.0005])
        line = ReceiptLine(path, etag, 10, chance.choice([0, 3]), chance.choice([0, 0, 1]), event_ts)
        if chance.random() < 0.7:
            return line
        return line._replace(
            error=chance.choice([None, None, "torn"]),
            finished=chance.random() < 0.6,
            begins=chance.random() < 0.5,
            repair=chance.choice([None, "whole", "records", "given"]),
        )

    def _checkpoint(self, receipts: list[Receipt]) -> Checkpoint:
        bounds = sorted({0, *(self.chance.randint(0, len(receipts)) for _ in range(self.chance.choice([0, 1, 3, 6])))})
        groups = [receipts[first:end] for first, end in pairwise(bounds)]
        return Checkpoint(
            IDENTITY.pipeline,
            IDENTITY.source,
            sequence=len(receipts) - 1,
            receipt=receipts[-1].name,
            ledger=tuple(put_run(self.table, group) for group in groups),
            files=dict.fromkeys(self._some()[:2], 5),
            late_swept_ts=self.chance.choice([None, BEGIN_TS + 5_000.0]),
            partition_watermarks=self.chance.choice([{}, dict.fromkeys(["", "a", "a/b", "b", "d", "z"], "~")]),
            moved_to=self.chance.choice([None, None, None, "elsewhere"]),
        )

    def _announce(self) -> None:
        for path in [*self._some()[:4], *([self._name()] if self.chance.random() < 0.3 else [])]:
            info = self.objects.head(path)
            etag = "e1" if info is None else info.etag
            entry = Entry(path, 1, etag, BEGIN_TS, FoundBy.EVENT)
            manifest = Manifest(self.table, IDENTITY.state_prefix, IDENTITY.source_id)
            manifest.append([entry], writer_id="w", now_ts=BEGIN_TS, floor=0)

    # -- questions

    def lives(self, glob: str | None = None, prefix: str = "") -> Lives:
        matches = Pattern(glob).matches if glob is not None else lambda path: True
        return Lives(self.source, prefix, matches, END_TS)


def random_question(chance: random.Random, glob: str | None) -> Question:
    since_ts = chance.choice(
        [None, None, None, BEGIN_TS - 1.0, BEGIN_TS + 1_000.0005, BEGIN_TS + 5_000, END_TS, -5.0, 0.0]
    )
    states = chance.sample(
        ["committed", "dead_lettered", "skipped", "pending", "missing", "absent"], chance.choice([0, 1, 1, 2, 5])
    )
    expression = None if glob is None else Pattern(glob).bytes_expression()
    return Question(since_ts, frozenset(states), expression)


def wants(question: Question) -> Callable[[Life], bool]:
    """Without its expression."""

    def is_wanted(life: Life) -> bool:
        came_ts = max(filter(None, (life.modified_ts, life.announced_ts)), default=None)
        is_recent = question.since_ts is None or (came_ts is not None and came_ts >= question.since_ts)
        return is_recent and (not question.states or life.state in question.states)

    return is_wanted
