"""Random contents of a ledger."""

from hypothesis import strategies as st

from blizzard.ledger.entry import FileState, LedgerEntry
from tests.unit import strategies

digests = st.text("0123456789abcdef", min_size=32, max_size=32)
etags = digests | st.builds("{}-{}".format, digests, st.integers(1, 10_000)) | strategies.any_text
small_paths = st.builds(
    "{}{}".format, st.sampled_from(["", "a/", "a/b/", "b/"]), st.text("abz.", min_size=1, max_size=3)
)


def entries(paths: st.SearchStrategy[str] = strategies.any_path) -> st.SearchStrategy[LedgerEntry]:
    return st.builds(
        LedgerEntry,
        path=paths,
        sequence=strategies.naturals,
        etag=etags,
        size=strategies.naturals,
        time_ms=strategies.naturals,
        rows=strategies.naturals,
        rejected=strategies.naturals,
        state=st.sampled_from(FileState),
        begins=st.booleans(),
    )


def sorted_entries(
    paths: st.SearchStrategy[str] = strategies.any_path, *, max_size: int = 30
) -> st.SearchStrategy[list[LedgerEntry]]:
    """Sorted, one for each path."""
    return st.lists(entries(paths), unique_by=lambda entry: entry.path, max_size=max_size).map(sorted)
