"""What a task makes of storage errors, of files that changed, and of unexpected errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    BucketMissing,
    CredentialsRefused,
    KeyUnusable,
    NotFound,
    StorageBroken,
    StorageError,
    StorageUnavailable,
)
from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectReader
from blizzard.storage.memory import MemoryStore
from spark_job.ports.reader import FailureKind
from spark_job.tasks.fetch import WHOLE_BYTES, TaskFile
from tests.unit.task_world import (
    LARGE,
    NOW_TS,
    PoisonedFormat,
    Task,
    UnexpectedError,
    a_store,
    files_of,
    numbered,
    read,
)

# --- Storage errors ---


class Refusing(MemoryStore):
    """Raises `errors[key]` when that object is opened."""

    def __init__(self, errors: dict[str, BlizzardError]) -> None:
        super().__init__(lambda: NOW_TS)
        self._errors = errors

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        if key in self._errors:
            raise self._errors[key]
        with super().open(key) as reader:
            yield reader


@pytest.mark.parametrize(
    ("error", "failure_kind"),
    [
        (NotFound("get b: there is no such object"), None),
        (StorageError("get b: the object is archived"), None),
        (AccessDenied("get b: S3 answered 403"), FailureKind.DENIED),
        (CredentialsRefused("get b: S3 answered ExpiredToken"), FailureKind.SYSTEMIC),
        (BucketMissing("get b: there is no such bucket"), FailureKind.SYSTEMIC),
        (KeyUnusable("get b: S3 answered KMS.DisabledException"), FailureKind.DENIED),
        (StorageBroken("get b: Input/output error"), FailureKind.SYSTEMIC),
    ],
)
@pytest.mark.parametrize("size", [9, WHOLE_BYTES + 1])
def test_a_storage_error_has_its_failure_kind_and_the_other_files_are_read(
    error: BlizzardError, failure_kind: FailureKind | None, size: int
) -> None:
    store = Refusing({"b": error})
    store.put("a", b'{"n": 0}\n')
    store.put("c", b'{"n": 1}\n')
    found = read(store, [TaskFile(key, size) for key in "abc"])
    assert found.lines == ['{"n": 0}', '{"n": 1}']
    failed = next(outcome for outcome in found.outcomes if outcome.path == "b")
    assert (failed.stage, failed.failure_kind, failed.rows) == (Stage.DOWNLOAD, failure_kind, 0)


def test_after_an_outage_no_further_file_is_retried() -> None:
    outage = StorageUnavailable("get b: given up after 8 attempts")
    store = Refusing({"b": outage, "c": AssertionError("asked again")})  # type: ignore[dict-item]
    store.put("a", b'{"n": 0}\n')
    found = read(store, [TaskFile(key, WHOLE_BYTES + 1) for key in "abc"])
    assert [outcome.failure_kind for outcome in found.outcomes] == [None, FailureKind.TRANSIENT, FailureKind.TRANSIENT]
    assert str(outage) in str(found.outcomes[2].error)


def test_the_outcome_of_a_deleted_file_names_the_reason() -> None:
    found = read(a_store(), [TaskFile("gone.ndjson", 9)])
    assert found.outcome.error == "gone: there is no such object"
    assert found.records == []


def test_a_file_that_changed_while_in_progress_is_refused() -> None:
    store = a_store(a=numbered(9))
    found = read(store, [TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")])
    assert found.records == []
    assert "it changed while in progress: 4 records of etag another are committed" in str(found.outcome.error)
    assert "stay" not in str(found.outcome.error)


def test_the_outcome_of_a_file_that_changed_in_progress_has_its_old_etag() -> None:
    """Of the new content nothing is known: as if it were, no sweep would ever ask for it."""
    part = TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")
    changed = read(a_store(a=numbered(9)), [part]).outcome
    assert (changed.etag, changed.size) == ("another", 9)


def test_the_outcome_of_a_file_deleted_in_progress_has_its_old_etag() -> None:
    """The table has rows of it, so it is no new file if it comes back."""
    part = TaskFile("a", 9, skip_records=4, slice_bytes=100, expected_etag="another")
    outcome = read(a_store(), [part]).outcome
    assert outcome.etag == "another"
    assert outcome.error == (
        "gone: there is no such object; its first 4 records were committed before, and their rows stay"
    )


def test_an_unchanged_file_in_progress_is_continued() -> None:
    store = a_store(a=numbered(9))
    etag = next(store.list()).etag
    found = read(store, [TaskFile("a", 9, skip_records=4, slice_bytes=10_000, expected_etag=etag)])
    assert [record["row"] for record in found.records] == [4, 5, 6, 7, 8]


def test_a_file_refused_by_its_path_is_not_read_but_has_its_etag() -> None:
    store = a_store(a=b'{"n": 0}\n')
    found = read(store, [TaskFile("a", 9, refusal="no folder `date=`")])
    assert found.records == []
    assert (found.outcome.stage, found.outcome.error) == (Stage.PARSE, "no folder `date=`")
    assert found.outcome.etag == next(store.list()).etag


# --- Unexpected errors ---


def test_an_unexpected_error_names_the_file_that_was_read() -> None:
    store = Refusing({"b": UnexpectedError()})  # type: ignore[dict-item]
    store.put("a", b"one")
    store.put("c", b"two")
    with pytest.raises(UnexpectedError) as raised:
        read(store, [TaskFile(key, 3) for key in "abc"])
    assert raised.value.__notes__ == ["while reading b"]


@pytest.mark.parametrize(("files", "named"), [("b", "b"), ("bc", "b, c"), ("abcde", "a, b, c and 2 other files")])
def test_an_unexpected_parser_error_names_the_files_of_the_batch(files: str, named: str) -> None:
    task = Task(a_store(**dict.fromkeys(files, b"poison\nmore")), file_format=PoisonedFormat())
    with pytest.raises(UnexpectedError) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == [f"while parsing records of {named}"]


def test_an_unexpected_parser_error_in_another_thread_names_the_large_file_only() -> None:
    large = numbered(900, pad=10_000)
    task = Task(a_store(a=b"good", b=large + b"poison", c=b"poison"), settings=LARGE, file_format=PoisonedFormat())
    with pytest.raises(UnexpectedError) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == ["while parsing records of b"]


def test_an_unexpected_writer_error_names_the_files_written_so_far() -> None:
    class Broken(MemoryStore):
        def writer(self, key: str) -> Any:
            raise UnexpectedError

    task = Task(a_store(a=numbered(3), b=numbered(4)), table=Broken(lambda: NOW_TS))
    with pytest.raises(UnexpectedError) as raised:
        task.report(files_of(task.store))
    assert raised.value.__notes__ == ["while reading a, b"]
    assert [*task.table.list()] == []
