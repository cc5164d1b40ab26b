"""What may become of the ledger on storage: runs and receipts are lost, torn, or take each other's place, or that of
another table's; and the bases of checkpoints with them. Nothing may be lost or doubled by it."""

import random
from collections.abc import Callable, Iterable
from zlib import crc32

from blizzard.errors import NotFound, StorageError, UnreadableState
from blizzard.ledger.block_codec import encode_block
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.path_filter import PathFilter, digest_of
from blizzard.ledger.run import BLOCK_ENTRIES, Run, RunLoading
from blizzard.ledger.run_index import RunIndex, encode_index
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore

_SHARE_OF_ANOTHER = 3
"""The other table has one of so many files."""


def damage(store: ObjectStore, identity: SourceIdentity, rng: random.Random, only: "Damage | None" = None) -> str:
    """Does one of DAMAGES, and says which."""
    does = only or rng.choice(DAMAGES)
    does(store, identity, rng)
    return name_of(does)


def name_of(does: "Damage") -> str:
    return does.__name__.strip("_").replace("_", " ")


def runs_of(store: ObjectStore, identity: SourceIdentity) -> list[str]:
    return [info.key for info in store.list(ledger_folder(identity))]


def receipts_of(store: ObjectStore, identity: SourceIdentity) -> list[str]:
    return [info.key for info in store.list(f"{identity.state_prefix}/receipts/")]


def bases_of(store: ObjectStore, identity: SourceIdentity) -> list[str]:
    return [info.key for info in store.list(identity.bases_folder)]


def _some(keys: list[str], rng: random.Random) -> list[str]:
    return rng.sample(keys, rng.randint(1, len(keys))) if keys else []


def _runs_are_deleted(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    store.delete(_some(runs_of(store, identity), rng))


def _receipts_are_deleted(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    store.delete(_some(receipts_of(store, identity), rng))


def _all_is_deleted(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    store.delete([*runs_of(store, identity), *receipts_of(store, identity)])


def _runs_are_torn(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    _tear(store, _some(runs_of(store, identity), rng), rng)


def _receipts_are_torn(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    _tear(store, _some(receipts_of(store, identity), rng), rng)


def _bases_are_deleted(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    store.delete(_some(bases_of(store, identity), rng))


def _bases_are_torn(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    _tear(store, _some(bases_of(store, identity), rng), rng)


def _runs_are_swapped(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    _swap(store, runs_of(store, identity), rng)


def receipts_are_swapped_and_runs_deleted(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    """Without runs all receipts are read again."""
    store.delete(runs_of(store, identity))
    _swap(store, receipts_of(store, identity), rng)


def runs_become_those_of_another_table(store: ObjectStore, identity: SourceIdentity, rng: random.Random) -> None:
    """Under the same names, of the same source, with parts of the same sizes."""
    copy = read_copy(store, identity)
    for ref in copy.ledger if copy else ():
        loading = RunLoading(store, ledger_folder(identity), ref, identity.source_id, with_filter=True)
        try:
            for call in loading.calls():
                call()
            data = _of_another_table(loading.run(), identity)
        except (NotFound, StorageError, UnreadableState):  # torn or deleted before
            continue
        store.put(ledger_folder(identity) + ref.name, data)


def _of_another_table(run: Run, identity: SourceIdentity) -> bytes:
    ref, entries = run.ref, [*run.scan()][::_SHARE_OF_ANOTHER]
    index = RunIndex(identity.source_id, run.index.previous)
    path_filter = PathFilter(bytearray(ref.index_at - ref.filter_at))
    blocks = b""
    for start in range(0, len(entries), BLOCK_ENTRIES):
        block = entries[start : start + BLOCK_ENTRIES]
        data = encode_block(block)
        index.add_block(block, data)
        blocks += data
        for entry in block:
            path_filter.add(digest_of(entry.path))
    index.filter_checksum = crc32(path_filter.bits)
    packed, _ = encode_index(index)
    return blocks.ljust(ref.filter_at, b"\0") + path_filter.bits + packed.ljust(ref.size - ref.index_at, b"\0")


def _tear(store: ObjectStore, keys: Iterable[str], rng: random.Random) -> None:
    for key in keys:
        if data := _get(store, key):
            store.put(key, data[: rng.randrange(len(data))])


def _swap(store: ObjectStore, keys: list[str], rng: random.Random) -> None:
    """Each takes the place of the next one."""
    chosen = rng.sample(keys, min(len(keys), rng.randint(2, 6)))
    contents = [_get(store, key) for key in chosen]
    for key, data in zip(chosen, [*contents[1:], *contents[:1]], strict=True):
        if data:
            store.put(key, data)


def _get(store: ObjectStore, key: str) -> bytes:
    """Empty if a job has deleted it meanwhile."""
    try:
        return store.get(key)
    except NotFound:
        return b""


Damage = Callable[[ObjectStore, SourceIdentity, random.Random], None]
DAMAGES_BESIDE_RECEIPTS: tuple[Damage, ...] = (
    _runs_are_deleted,
    _runs_are_torn,
    _runs_are_swapped,
    runs_become_those_of_another_table,
    _bases_are_deleted,
    _bases_are_torn,
)
"""After these the receipts still tell all that is settled."""
DAMAGES: tuple[Damage, ...] = (
    *DAMAGES_BESIDE_RECEIPTS,
    _receipts_are_deleted,
    _receipts_are_torn,
    receipts_are_swapped_and_runs_deleted,
    _all_is_deleted,
)
