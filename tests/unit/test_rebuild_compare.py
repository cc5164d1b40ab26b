"""What differs between a table and the one that is to take its place."""

from blizzard.ledger.entry import FileState, LedgerEntry
from spark_job.rebuild.compare import Accepted, compared


def entry(path: str, rows: int = 1, *, etag: str = "e", state: FileState = FileState.DONE) -> LedgerEntry:
    return LedgerEntry(path, 0, etag, 10, 0, rows, 0, state)


def test_what_differs_between_the_tables_is_named_by_its_kind() -> None:
    old = [entry(name) for name in ("differs", "empty", "gone", "missing", "partly", "refused", "same", "written")]
    old = [old[0], entry("empty", 0), entry("fewer", 2), *old[2:]]
    new = [
        entry("differs", 2),
        entry("fewer", 1),
        replace_state("partly", FileState.PARTLY),
        replace_state("refused", FileState.FAILED),
        entry("same"),
        entry("written", etag="other"),
        entry("zzz"),
    ]
    there = {"missing", "partly", "differs"}
    found = compared("s", old, new, lambda paths: there & {*paths})
    assert found.as_document()["names"] == {
        "missing": ["missing", "partly"],
        "gone": ["gone"],
        "refused": ["refused"],
        "fewer_rows": ["fewer"],
        "overwritten": ["written"],
        "other_rows": ["differs"],
    }
    assert (found.files, found.rows, found.new_files, found.new_rows) == (9, 9, 7, 6)
    assert not found.is_complete(Accepted(gone=True))
    found.missing.count = 0
    assert found.is_complete(Accepted(gone=True))
    for kind in (found.gone, found.refused, found.fewer_rows):
        assert not found.is_complete(Accepted())
        kind.count = 0
    assert found.is_complete(Accepted())


def replace_state(path: str, state: FileState) -> LedgerEntry:
    return entry(path)._replace(state=state, rows=0)
