"""A source whose commits have only a ledger: a table, receipts and runs, without reading any file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.merge import LedgerSettings
from blizzard.state.base import Difference, Settled
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import STATE_PREFIX

SMALL = LedgerSettings(commits=2, files=20, factor=2, in_background=False, parallel_reads=1)
FOLDER = f"{STATE_PREFIX}/ledger/"
RECEIPTS = f"{STATE_PREFIX}/receipts/"


@dataclass
class LedgerWorld:
    """`expected`: path to etag of every committed file."""

    settings: LedgerSettings = SMALL
    now_ts: float = 1000.0
    log_is_read: bool = False
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint("events", "landing"))
    expected: dict[str, str] = field(default_factory=dict)
    table: list[LedgerEntry] = field(default_factory=list)
    delta_log: list[Commit] = field(default_factory=list)
    """Newest first."""
    asked: list[SequenceRange] = field(default_factory=list)
    log: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(lambda: self.now_ts)
        self.identity = SourceIdentity("events", "landing", STATE_PREFIX)
        self.receipts = Receipts(self.store, STATE_PREFIX)

    def keeper(self) -> LedgerKeeper:
        return LedgerKeeper(
            self.store,
            self.identity,
            ask_table=self.ask_table,
            commits=lambda: self.delta_log if self.log_is_read else (),
            clock=lambda: self.now_ts,
            new_id=self.new_id,
            log=self.record,
            settings=self.settings,
        )

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:04d}"

    def record(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def events(self, name: str) -> list[Mapping[str, object]]:
        return [fields for event, fields in self.log if event == name]

    def ask_table(self, sequences: SequenceRange) -> list[LedgerEntry]:
        self.asked.append(sequences)
        return [entry for entry in self.table if sequences.first <= entry.sequence <= sequences.last]

    def commit(self, keeper: LedgerKeeper, files: Mapping[str, str], *, wins: bool = True) -> None:
        """One commit of files (path to etag), as the job does it. If it does not win, its receipt stays."""
        runs = keeper.refs(self.checkpoint)
        sequence = self.checkpoint.sequence + 1
        receipt = self.receipts.put(
            sequence=sequence,
            attempt=self.new_id(),
            previous=self.checkpoint.receipt,
            now_ts=self.now_ts,
            lines=[ReceiptLine(path, etag, 10, 1, 0, 1.0) for path, etag in files.items()],
        )
        keeper.expect(receipt)
        if not wins:
            keeper.forget()
            return
        self.checkpoint = replace(self.checkpoint, sequence=sequence, receipt=receipt.name, ledger=runs)
        text = encode(self.checkpoint, Difference(Settled()))
        self.delta_log.insert(0, Commit(sequence, {self.identity.app_id: sequence}, text, None))
        self.expected.update(files)
        self.table += [LedgerEntry(p, sequence, etag, 0, 0, 1, 0, FileState.DONE) for p, etag in files.items()]

    def runs(self) -> list[str]:
        return [info.key.removeprefix(FOLDER) for info in self.store.list(FOLDER)]

    def found(self, keeper: LedgerKeeper, *others: str) -> dict[str, str]:
        """Path to etag, of all committed files and some others."""
        return {path: entry.etag for path, entry in keeper.find(self.checkpoint, [*self.expected, *others]).items()}


def filled(commits: int, world: LedgerWorld | None = None) -> LedgerWorld:
    world = world or LedgerWorld()
    keeper = world.keeper()
    for n in range(commits):
        world.commit(keeper, {f"f{n}": "1", "again": str(n)})
    return world
