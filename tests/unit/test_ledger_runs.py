"""Runs of the ledger: what is written is found again, in few requests, and damage is noticed."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.ledger.block_codec import BlockColumns, decode_block, encode_block
from blizzard.ledger.entry import FileState, LedgerEntry, entries_of, merge_sorted, merged
from blizzard.ledger.path_filter import LARGE_RUN, PathFilter, digest_of, filter_bytes
from blizzard.ledger.path_list import PathList
from blizzard.ledger.run import BLOCK_ENTRIES, Run, RunLoading, write_run
from blizzard.ledger.run_index import shortest_above
from blizzard.state.receipts import Receipt, ReceiptLine
from blizzard.state.run_ref import RunRef, SequenceRange, decode_ref, encode_ref, ranges_without
from blizzard.storage.memory import MemoryStore
from tests.unit import strategies
from tests.unit.ledger_strategies import entries, small_paths, sorted_entries
from tests.unit.strategies import memory_store

FOLDER = "state/ledger/"
SOURCE = "events:landing"


def entry(path: str, sequence: int = 0, etag: str = "e1", rows: int = 1) -> LedgerEntry:
    return LedgerEntry(path, sequence, etag, 10, 1000, rows, 0, FileState.DONE)


def written(store: MemoryStore, content: Sequence[LedgerEntry], *, first: int = 0, last: int = 9) -> Run:
    return write_run(
        store,
        FOLDER,
        content,
        sequences=SequenceRange(first, last),
        previous=None,
        source_id=SOURCE,
        run_id="r",
        max_files=len(content),
    )


def loaded(store: MemoryStore, ref: RunRef, *, with_filter: bool = True, source_id: str = SOURCE) -> Run:
    loading = RunLoading(store, FOLDER, ref, source_id, with_filter)
    for call in reversed(loading.calls()):
        call()
    return loading.run()


def find(run: Run, paths: Sequence[str]) -> list[LedgerEntry]:
    blocks = run.blocks_of((path, digest_of(path)) for path in paths)
    return [
        found
        for numbers in run.reads(blocks)
        for number, data in run.read(numbers)
        for found in run.find(blocks.get(number, ()), data)
    ]


def thousands(count: int) -> list[LedgerEntry]:
    return [entry(f"day={n // 1000:03d}/{n:07d}.json", n % 7) for n in range(count)]


@given(sorted_entries())
def test_a_block_has_the_entries_that_were_written(content: list[LedgerEntry]) -> None:
    block = decode_block(encode_block(content))
    assert [*block] == content
    assert [block.find(each.path) for each in content] == content


@given(sorted_entries(small_paths), small_paths)
def test_a_block_finds_no_other_path(content: list[LedgerEntry], path: str) -> None:
    expected = next((each for each in content if each.path == path), None)
    assert decode_block(encode_block(content)).find(path) == expected


@given(sorted_entries(), st.data())
def test_a_torn_block_is_unreadable(content: list[LedgerEntry], data: st.DataObject) -> None:
    block = encode_block(content)
    with pytest.raises(UnreadableState):
        decode_block(block[: data.draw(st.integers(0, len(block) - 1))])


@given(st.lists(strategies.any_path, unique=True, max_size=200))
def test_a_filter_passes_every_path_that_was_added(paths: list[str]) -> None:
    path_filter = PathFilter(bytearray(filter_bytes(len(paths))))
    for path in paths:
        path_filter.add(digest_of(path))
    assert all(path_filter.may_contain(digest_of(path)) for path in paths)


def test_a_filter_passes_one_in_two_thousand_other_paths_at_most() -> None:
    path_filter = PathFilter(bytearray(filter_bytes(20_000)))
    for number in range(20_000):
        path_filter.add(digest_of(f"known/{number}"))
    passed = sum(path_filter.may_contain(digest_of(f"new/{number}")) for number in range(20_000))
    assert passed < 10


def test_a_filter_takes_18_bits_a_path_and_8_in_large_runs() -> None:
    assert filter_bytes(1_000_000) == 2_250_000
    assert filter_bytes(LARGE_RUN) == LARGE_RUN
    assert filter_bytes(0) == 1


@given(sorted_entries(small_paths), st.booleans(), st.lists(small_paths, max_size=20))
def test_a_run_finds_what_was_written_and_nothing_else(
    content: list[LedgerEntry], with_filter: bool, asked: list[str]
) -> None:
    store = memory_store()
    run = loaded(store, written(store, content).ref, with_filter=with_filter)
    by_path = {each.path: each for each in content}
    assert {each.path: each for each in find(run, asked)} == {p: by_path[p] for p in asked if p in by_path}
    assert [*run.scan()] == content


@given(st.lists(small_paths, min_size=2, max_size=2, unique=True))
def test_a_block_begins_with_the_shortest_text_above_the_block_before(both: list[str]) -> None:
    before, path = sorted(both)
    start = shortest_above(before, path)
    assert before < start <= path
    assert start[:-1] <= before


def test_a_list_of_paths_is_a_list() -> None:
    packed = PathList(["a/1", "", "é/\ud800", "z"])
    assert [*packed] == ["a/1", "", "é/\ud800", "z"]
    assert (packed[-1], packed[1:3], len(packed)) == ("z", ["", "é/\ud800"], 4)
    with pytest.raises(IndexError):
        packed[4]


def test_a_run_of_many_blocks_is_found_and_scanned_from_any_path() -> None:
    store, content = memory_store(), thousands(5000)
    run = loaded(store, written(store, content).ref)
    assert len(run.index.starts) == -(-5000 // BLOCK_ENTRIES)
    assert find(run, [each.path for each in content[::97]]) == content[::97]
    assert [*run.scan("day=002/")] == content[2000:]
    assert [*run.scan("x")] == []


def test_new_files_need_no_request_and_neighbours_one() -> None:
    store, content = memory_store(), thousands(5000)
    run = loaded(store, written(store, content).ref)
    assert run.blocks_of([("day=003/new", digest_of("day=003/new"))]) == {}
    near = run.blocks_of((each.path, digest_of(each.path)) for each in content[1000:2000:50])
    assert len(near) > 1
    assert len(run.reads(near)) == 1


def test_without_a_filter_names_above_all_others_and_new_partitions_need_no_request() -> None:
    store = memory_store()
    run = loaded(store, written(store, thousands(5000)).ref, with_filter=False)
    new = ["day=004/0005000.json", "day=005/0000001.json", "day=0035/x", "day=000/0000000.json"]
    assert run.blocks_of((path, digest_of(path)) for path in new) == {0: ["day=000/0000000.json"]}


def test_a_look_up_in_a_huge_run_reads_only_the_blocks_in_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.ledger.run._GAP_BYTES", 0)
    store, content = memory_store(), thousands(20_000)
    run = loaded(store, written(store, content).ref)
    assert run.reads([1, 2, 5]) == [range(1, 3), range(5, 6)]
    monkeypatch.setattr("blizzard.ledger.run._READ_BYTES", 1)
    assert run.reads([1, 2, 5]) == [range(1, 2), range(2, 3), range(5, 6)]


def test_a_large_filter_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.ledger.run._FILTER_READ_BYTES", 1000)
    store, content = memory_store(), thousands(5000)
    ref = written(store, content).ref
    assert len(RunLoading(store, FOLDER, ref, SOURCE, True).calls()) == 13
    run = loaded(store, ref)
    assert find(run, [each.path for each in content]) == content


def test_a_run_larger_than_a_put_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.ledger.run._SMALL_RUN_FILES", 10)
    store, content = memory_store(), thousands(2000)
    assert [*loaded(store, written(store, content).ref).scan()] == content


def test_partitions_tell_files_newest_time_and_how_many_names_are_in_no_order() -> None:
    content = sorted(
        [
            *(entry(f"ordered/{n}")._replace(time_ms=n * 100_000) for n in range(9)),
            *(entry(f"nearly/{n}")._replace(time_ms=(9 - n) * 60_000) for n in range(9)),
            *(entry(f"mixed/{n}")._replace(time_ms=(9 - n) * 60_001) for n in range(9)),
            entry("root")._replace(time_ms=7),
        ]
    )
    store = memory_store()
    stats = loaded(store, written(store, content).ref).index.partitions
    assert [(name, s.files, s.disordered, s.last_name) for name, s in stats.items()] == [
        ("mixed", 9, 8, "8"),
        ("nearly", 9, 0, "8"),
        ("ordered", 9, 0, "8"),
        ("", 1, 0, "root"),
    ]
    assert stats[""].newest_ms == 7


def damages(data: bytes, ref: RunRef) -> Iterator[bytes]:
    for at in (0, ref.filter_at, ref.index_at, ref.size - 1):
        yield data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    yield data[: ref.index_at]
    yield data[:-1]
    yield b""


def test_a_damaged_run_is_never_read_as_if_it_were_whole() -> None:
    store, content = memory_store(), thousands(1000)
    ref = written(store, content).ref
    data = store.get(FOLDER + ref.name)
    for damaged in damages(data, ref):
        store.put(FOLDER + ref.name, damaged)
        with pytest.raises(Exception, match=r"damaged|shorter|expected more") as raised:
            find(loaded(store, ref), [each.path for each in content])
        assert type(raised.value).__name__ in {"UnreadableState", "NoSuchBytes"}


def test_a_run_of_another_source_or_table_is_refused() -> None:
    store, other = memory_store(), memory_store()
    ref = written(store, thousands(10)).ref
    with pytest.raises(UnreadableState, match="belongs to"):
        loaded(store, ref, source_id="events:other")
    written(other, thousands(11))
    with pytest.raises(UnreadableState, match=r"not the one that the checkpoint names|shorter"):
        loaded(other, ref)


@given(st.lists(sorted_entries(small_paths, max_size=8), max_size=4))
def test_a_merge_has_each_file_once_with_its_newest_entry(parts: list[list[LedgerEntry]]) -> None:
    newest: dict[str, LedgerEntry] = {}
    for each in sorted(each for part in parts for each in part):
        before = newest.get(each.path)
        is_alone = each.begins or each.state in (FileState.COUNTED, FileState.READ_ANEW)
        if before is None or before.etag != each.etag or is_alone:
            newest[each.path] = each
        elif each.state is FileState.REPLAYED:
            newest[each.path] = before._replace(
                sequence=each.sequence,
                rows=before.rows + each.rows,
                rejected=max(0, before.rejected - each.rows),
                state=before.state if before.is_done else FileState.DONE,
            )
        else:
            goes_on = each.state is FileState.PARTLY
            state = before.state if before.is_in_progress else FileState.UNCOUNTED
            newest[each.path] = each._replace(
                rows=before.rows + each.rows,
                rejected=before.rejected + each.rejected,
                state=state if goes_on else each.state,
                begins=before.begins,
            )
    assert [*merge_sorted(*parts)] == [newest[path] for path in sorted(newest)]


def test_the_slices_of_a_large_file_add_up() -> None:
    slices = [entry("a", n, rows=10)._replace(state=FileState.PARTLY) for n in range(3)]
    [merged] = merge_sorted(slices, [entry("a", 3, rows=4)])
    assert (merged.rows, merged.sequence, merged.state) == (34, 3, FileState.DONE)


@given(st.lists(st.sampled_from(FileState), min_size=3, max_size=6), st.data())
def test_how_far_a_file_was_read_does_not_depend_on_the_order_in_which_its_parts_are_merged(
    states: list[FileState], data: st.DataObject
) -> None:
    parts = [entry("a", n, rows=10**n)._replace(state=state) for n, state in enumerate(states)]
    first = data.draw(st.integers(1, len(parts) - 1))
    one_run, other_run = [merged(parts[:first])], [merged(parts[first:])]
    [found], expected = merge_sorted(one_run, other_run), merged(parts)
    assert found.state == expected.state
    if found.state is FileState.COUNTED:
        assert found == expected


def test_a_file_that_begins_anew_after_it_failed_counts_alone() -> None:
    states = [FileState.COUNTED, FileState.PARTLY, FileState.FAILED, FileState.COUNTED, FileState.PARTLY]
    found = merged(entry("a", n, rows=10)._replace(state=state) for n, state in enumerate(states))
    assert (found.rows, found.state) == (20, FileState.COUNTED)


def lives() -> st.SearchStrategy[list[LedgerEntry]]:
    """Commits of one file, from its first record on: its contents in turn, each read in one commit or in several."""
    parts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3)
    return st.lists(st.tuples(st.sampled_from("xy"), parts, st.booleans()), min_size=1, max_size=4).map(
        lambda contents: [
            each._replace(sequence=sequence)
            for sequence, each in enumerate(
                each for etag, counts, fails in contents for each in of_content(etag, counts, fails=fails)
            )
        ]
    )


def of_content(etag: str, counts: Sequence[tuple[int, int]], *, fails: bool) -> list[LedgerEntry]:
    """The entries of the receipts of commits that bring `counts` of rows and refused records."""
    last = len(counts) - 1
    lines = [
        ReceiptLine("a", etag, 10, *count, 1.0, "cut off" if fails and at == last else None, at == last, at == 0)
        for at, count in enumerate(counts)
    ]
    return entries_of(Receipt("r", None, 0, 0.0, tuple(lines)))


@given(lives(), st.data())
def test_a_content_that_comes_back_is_counted_once_however_its_commits_are_cut_into_runs(
    commits: list[LedgerEntry], data: st.DataObject
) -> None:
    begin = max(at for at, each in enumerate(commits) if each.begins)
    newest = commits[begin:]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(commits) - 1)))) if len(commits) > 1 else []
    runs = [commits[start:end] for start, end in pairwise([0, *cuts, len(commits)])]
    stored = [[*decode_block(encode_block([merged(run)]))] for run in runs]
    [found] = merge_sorted(*stored)
    assert (found.rows, found.rejected) == (sum(e.rows for e in newest), sum(e.rejected for e in newest))
    assert (found.sequence, found.etag, found.is_done) == (newest[-1].sequence, newest[-1].etag, newest[-1].is_done)


def test_a_block_of_a_version_that_did_not_note_where_contents_begin_is_read() -> None:
    older = entry("a", 0, rows=10)
    newer = older._replace(sequence=1, begins=True)
    assert [*decode_block(encode_block([older]))] == [older]
    assert merged([older, newer]).rows == 10
    states = BlockColumns(encode_block([newer, newer._replace(path="b", state=FileState.FAILED, begins=False)])).states
    assert [*states] == [FileState.DONE, FileState.FAILED]


@pytest.mark.parametrize("runs", [1, 2, 3, 4], ids=lambda runs: f"first merged up to {runs}")
def test_a_file_that_is_read_anew_counts_alone_and_replayed_records_are_no_longer_refused(runs: int) -> None:
    parts = [
        entry("a", 0, rows=10)._replace(rejected=5),
        entry("a", 1, rows=12)._replace(rejected=3, state=FileState.READ_ANEW),
        entry("a", 2, rows=1)._replace(state=FileState.REPLAYED, size=0),
        entry("a", 3, rows=1)._replace(state=FileState.REPLAYED),
    ]
    one, other = merged(parts[:runs]), parts[runs:]
    [found] = merge_sorted([one], [merged(other)]) if other else [one]
    assert (found.sequence, found.rows, found.rejected, found.size) == (3, 14, 1, 10)
    assert found.is_done


def test_parts_after_one_that_only_the_table_knows_are_not_counted() -> None:
    states = [FileState.COUNTED, FileState.DONE, FileState.PARTLY]
    found = merged(entry("a", n, rows=10)._replace(state=state) for n, state in enumerate(states))
    assert (found.rows, found.state) == (30, FileState.UNCOUNTED)


@given(entries(), st.integers(0, 10), st.integers(0, 10))
def test_a_reference_is_read_as_it_was_written(content: LedgerEntry, first: int, more: int) -> None:
    ref = written(memory_store(), [content], first=first, last=first + more).ref
    assert decode_ref(encode_ref(ref)) == ref


@pytest.mark.parametrize("change", [{0: 5, 1: 4}, {4: 9, 5: 9}, {5: 10, 6: 10}, {3: -1}, {7: 1}, {2: None}])
def test_a_reference_that_contradicts_itself_is_malformed(change: dict[int, object]) -> None:
    value = encode_ref(RunRef(0, 3, "r", 1, 4, 5, 6, "d"))
    for at, wrong in change.items():
        value[at] = wrong
    with pytest.raises((TypeError, ValueError)):
        decode_ref(value)


@given(st.sets(st.integers(0, 12)), st.integers(-1, 12))
def test_what_runs_do_not_cover_is_missing(covered: set[int], last: int) -> None:
    runs = [SequenceRange(n, n) for n in covered]
    missing = ranges_without(runs, last)
    assert [n for r in reversed(missing) for n in range(r.first, r.last + 1)] == [
        n for n in range(last + 1) if n not in covered
    ]
