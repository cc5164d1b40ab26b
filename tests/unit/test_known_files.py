"""The compact set of committed files knows exactly what a dictionary would, in a few bytes per file."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from blizzard.state.known_files import KnownFiles
from tests.unit import strategies

texts = st.sampled_from(["", "a", "b", "a/b", "é", "\ud800"]) | strategies.any_text


@given(st.lists(st.tuples(texts, texts)), st.integers(0, 8))
def test_known_files_hold_the_first_etag_of_each_path(said: list[tuple[str, str]], most: int) -> None:
    known, expected = KnownFiles(most), dict[str, str]()
    for path, etag in said:
        known.add(path, etag)
        if len(expected) < most:
            expected.setdefault(path, etag)
    assert (len(known), known.full) == (len(expected), len(expected) >= most)
    assert {pair for pair in said if known.contains(*pair)} == set(expected.items())
    assert not any(known.contains(path, f"{etag} ") for path, etag in expected.items())
    assert not known.contains("never said", "")


def test_a_hundred_thousand_known_files_take_a_few_bytes_each() -> None:
    known = KnownFiles()
    tracemalloc.start()
    try:
        for n in range(100_000):
            known.add(f"date=2026-11-22/hour=13/{n:06}-01926abd7f3a.ndjson.gz", f"{n:032x}")
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(known) == 100_000
    assert held < 12_000_000, "6 MB are there once; a dictionary takes 22 MB, and as much again with its pairs in a set"
    assert all(
        known.contains(f"date=2026-11-22/hour=13/{n:06}-01926abd7f3a.ndjson.gz", f"{n:032x}") for n in range(1000)
    )
