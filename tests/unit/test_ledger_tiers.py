"""Which runs are merged: few runs remain, and no file is written often."""

from hypothesis import given
from hypothesis import strategies as st

from blizzard.ledger.tiers import runs_to_merge
from blizzard.state.run_ref import RunRef


def ref(first: int, last: int, files: int) -> RunRef:
    return RunRef(first, last, "r", files, 0, 1, 2, "d")


def flush_and_merge(sizes: list[int], factor: int) -> tuple[list[RunRef], int]:
    """The runs after commits of these many files, each of which became a run, and how many files were written."""
    runs: list[RunRef] = []
    written = 0
    for sequence, files in enumerate(sizes):
        runs.append(ref(sequence, sequence, files))
        written += files
        while group := runs_to_merge(runs, factor):
            at = runs.index(group[0])
            runs[at : at + len(group)] = [ref(group[0].first, group[-1].last, sum(run.files for run in group))]
            written += runs[at].files
    return runs, written


def test_a_million_files_in_small_commits_leave_few_runs_and_are_written_four_times() -> None:
    runs, written = flush_and_merge([320] * 3125, 10)
    assert sum(run.files for run in runs) == 1_000_000
    assert len(runs) <= 36
    assert written <= 4.1 * 1_000_000


@given(st.lists(st.integers(0, 100_000), max_size=60), st.integers(2, 4))
def test_runs_stay_neighbours_and_keep_all_files(sizes: list[int], factor: int) -> None:
    runs, _ = flush_and_merge(sizes, factor)
    assert [run.first for run in runs] == [0, *(run.last + 1 for run in runs[:-1])][: len(runs)]
    assert sum(run.files for run in runs) == sum(sizes)


def test_runs_with_a_gap_between_them_are_not_merged() -> None:
    runs = [ref(n, n, 5) for n in (0, 1, 3, 4)]
    assert runs_to_merge(runs, 3) == ()
    assert runs_to_merge([*runs, ref(5, 5, 5)], 3) == [ref(n, n, 5) for n in (3, 4, 5)]


def test_small_runs_around_a_large_one_wait_until_there_are_enough_of_its_size() -> None:
    assert runs_to_merge([ref(0, 0, 1), ref(1, 1, 1_000_000), ref(2, 2, 1)], 2) == ()
    assert runs_to_merge([], 10) == ()
