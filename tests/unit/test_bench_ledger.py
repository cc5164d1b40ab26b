"""The ledgers that the benchmark `names` measures are like those that a job makes."""

from pathlib import Path

import pytest

from benchmarks.counting_store import CountingStore
from benchmarks.ledger import lifetime, look_up, random_names
from benchmarks.ledger.simulated import sparse_run
from benchmarks.ledger.stored import IDENTITY, make_ledger
from benchmarks.ledger.tiers import shape_of
from blizzard.ledger.ledger import open_ledger
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore


def test_runs_have_the_sizes_that_merging_leaves() -> None:
    shape = shape_of(1_000_000, per_commit=1_000)
    assert 1_000_000 <= shape.files <= 1_100_000
    assert [files for _, _, files in shape.runs] == [200_000] * 5 + [20_000] * 4
    assert shape.recent == 19
    firsts, lasts = ([run[at] for run in shape.runs] for at in (0, 1))
    assert firsts == [0, *(last + 1 for last in lasts[:-1])]
    assert shape.commits == lasts[-1] + 1 + 19


def test_a_written_ledger_has_each_of_its_files_and_needs_nothing_else(tmp_path: Path) -> None:
    made = make_ledger(tmp_path / "lake", 2_000)
    store = LocalStore(tmp_path / "lake")
    ledger = open_ledger(store, IDENTITY, CheckpointCodec(store, IDENTITY).read_copy(), with_filters=True)
    assert not ledger.gaps
    entries = [*ledger.scan()]
    assert len(entries) == made.files >= 2_000
    assert {entry.path.partition("/")[0] for entry in entries} == {*map(random_names.partition, range(30))}
    assert ledger.find([entry.path for entry in entries]) == {entry.path: entry for entry in entries}


def test_a_simulated_ledger_takes_the_memory_of_a_real_one(tmp_path: Path) -> None:
    found = []
    for name, make_run in (("real", None), ("simulated", sparse_run)):
        made = make_ledger(tmp_path / name, 30_000, make_run)
        store = LocalStore(tmp_path / name)
        ledger = open_ledger(store, IDENTITY, CheckpointCodec(store, IDENTITY).read_copy(), with_filters=True)
        assert not ledger.gaps
        filters = [run.filter.bits for run in ledger.runs if run.filter is not None]
        found.append((made.files, [len(bits) for bits in filters], [len(run.index.starts) for run in ledger.runs]))
        share_set = sum(bits.bit_count() for bits in map(int.from_bytes, filters)) / sum(8 * len(b) for b in filters)
        assert 0.25 < share_set < 0.5
    assert found[0] == found[1]


def test_look_ups_tell_requests_bytes_and_seconds_of_a_new_process(tmp_path: Path) -> None:
    made = make_ledger(tmp_path / "lake", 2_000)
    answer = look_up.measure(str(tmp_path / "lake"), 3)
    assert answer["first_requests"] >= made.runs + 31
    assert answer["first_bytes"] > 2 * made.files_in_runs
    assert [len(answer[key]) for key in ("new_secs", "known_secs")] == [3, 3]
    assert answer["known_requests"] >= 1
    assert look_up.measure(str(tmp_path / "lake"), 0)["first_bytes"] == answer["first_bytes"]


def test_a_ledger_without_its_files_is_not_measured(tmp_path: Path) -> None:
    make_ledger(tmp_path / "lake", 2_000)
    for run in Path(tmp_path, "lake", IDENTITY.state_prefix, "ledger").iterdir():
        run.unlink()
    with pytest.raises(look_up.UnexpectedAnswer, match="the table was asked"):
        look_up.measure(str(tmp_path / "lake"), 1)


def test_what_a_ledger_writes_over_its_life_is_counted_with_what_was_merged_again() -> None:
    life = lifetime.measure(32 * 110, 10)
    assert (life["runs"], life["files_in_runs"]) == (1, 32 * 100)
    assert 1.5 * life["stored_bytes"] < life["ledger_bytes"] < 3 * life["stored_bytes"]
    assert life["receipt_bytes"] > 0


def test_a_store_is_asked_as_often_as_is_counted() -> None:
    store = CountingStore(MemoryStore(lambda: 0.0))
    store.put("a/b", b"12345")
    with store.writer("a/c") as writer:
        writer.write(b"123")
    store.create("d/e", b"1")
    assert store.written_bytes == {"a": 8, "d": 1}
    assert store.requests == 0
    assert (store.get("a/b"), store.get_range("a/b", 1, 2)) == (b"12345", b"23")
    assert [info.key for info in store.list("a/")] == ["a/b", "a/c"]
    assert (store.requests, store.read_bytes) == (3, 7)
