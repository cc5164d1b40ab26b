"""What comes with a commit of the local engine, or right after it: commits of others, errors of the disk."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake.exceptions import DeltaError

from blizzard.errors import (
    AlreadyExists,
    CommitOutcomeUnknown,
    LostRace,
    PermanentError,
    RetryableError,
    StorageUnavailable,
)
from blizzard.log import silent
from blizzard.state.delta_log import LAST_CHECKPOINT, commit_key
from blizzard.state.snapshot_actions import snapshot_actions
from blizzard.storage.local import LocalStore
from spark_job.engines.local import open_table
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource

Logged = list[tuple[str, dict[str, Any]]]
SPARK_ALONE = {"delta.logRetentionDuration": "60 days"}
"""deltalake would take its default for it."""


def table_of(folder: Path, logged: Logged | None = None) -> DeltaSourceTable:
    def log(event: str, /, **fields: Any) -> None:
        if logged is not None:
            logged.append((event, fields))

    source = TableSource(str(folder), "p:a", "blizzard:p:a", "id STRING", {}, ())
    store = LocalStore(folder, may_be_missing=True)
    opened = OpenTables(dict).at(source.table_uri, store)
    return DeltaSourceTable(LocalTable(source, store, opened, clock=time.time, log=log), source, store=store)


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets something happen once right before a commit of the local engine, and something right after it, when the
    table in memory does not know of it yet."""

    def lets(before: Callable[[], object] = object, after: Callable[[], object] = object) -> None:
        whole, left = LocalStore.create, [(before, after)]

        def create(store: LocalStore, key: str, data: bytes) -> Any:
            first, then = left.pop() if left else (object, object)
            first()
            info = whole(store, key, data)
            then()
            return info

        monkeypatch.setattr(LocalStore, "create", create)

    return lets


def append_of_others(folder: Path, txn: Transaction | None = None) -> None:
    table = DeltaTable(str(folder))
    properties = CommitProperties({"by": "others"}, app_transactions=[txn] if txn else [])
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def test_an_append_comes_after_commits_of_others_that_were_first(tmp_path: Path, around: Callable[..., None]) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")

    def others() -> None:
        for number in range(3):
            append_of_others(tmp_path, Transaction(f"other {number}", 7, 0))

    around(before=others)
    table.append(None, sequence=1, user_metadata="")
    assert [commit.version for commit in table.commits(9) if "blizzard:p:a" in commit.txns] == [4, 0]


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (lambda folder: append_of_others(folder, Transaction("blizzard:p:a", 1, 0)), "Txn blizzard:p:a$"),
        (lambda folder: DeltaTable(str(folder)).alter.set_table_properties({"delta.appendOnly": "true"}), "properties"),
        (lambda folder: DeltaTable(str(folder)).alter.add_columns([Field("n", "long")]), "columns or properties$"),
    ],
    ids=["the source's own", "properties", "columns"],
)
def test_an_append_whose_premises_another_commit_took_away_is_a_lost_race(
    tmp_path: Path, around: Callable[..., None], happens: Callable[[Path], None], told: str
) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    around(before=lambda: happens(tmp_path))
    with pytest.raises(LostRace, match=rf"version 1 have changed .*{told}"):
        table.append(None, sequence=1, user_metadata="mine")
    assert DeltaTable(str(tmp_path)).version() == 1
    assert "mine" not in [commit.user_metadata for commit in table.commits(9)]


def test_an_append_that_is_always_overtaken_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")

    def create(store: LocalStore, key: str, data: bytes) -> Any:
        append_of_others(tmp_path)
        raise AlreadyExists(key)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", create)
        with pytest.raises(RetryableError, match="first at each of the last 20 versions"):
            table.append(None, sequence=1, user_metadata="")
    table.append(None, sequence=1, user_metadata="")
    assert DeltaTable(str(tmp_path)).version() == 21


def test_a_file_in_the_commits_place_that_is_no_commit_commits_nothing(
    tmp_path: Path, around: Callable[..., None]
) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    place = tmp_path / "_delta_log" / f"{1:020d}.json"
    around(before=lambda: place.write_text("{ half"))
    with pytest.raises(
        RetryableError, match="reading the commits that others have made meanwhile: nothing was committed"
    ):
        table.append(None, sequence=1, user_metadata="")
    assert place.read_text() == "{ half"


def test_a_commit_of_others_that_came_with_ours_sends_the_next_one_to_spark(
    tmp_path: Path, around: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is cleaned up with a retention that deltalake does not understand."""
    table = table_of(tmp_path)
    for sequence in range(10):
        table.append(None, sequence=sequence, user_metadata="")
    around(after=lambda: DeltaTable(str(tmp_path)).alter.set_table_properties(SPARK_ALONE, raise_if_not_exists=False))
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", lambda table: pytest.fail("cleaned up"))
    table.append(None, sequence=10, user_metadata="")
    assert DeltaTable(str(tmp_path)).transaction_version("blizzard:p:a") == 10
    with pytest.raises(NeedsSpark):
        table.append(None, sequence=11, user_metadata="")
    assert not (tmp_path / LAST_CHECKPOINT).exists()


def test_an_error_of_the_disk_after_a_commit_that_stands_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(open_table, "sync_files", full)
        with pytest.raises(CommitOutcomeUnknown, match="the commit was made, and then"):
            table.append(None, sequence=1, user_metadata="")
    assert table.txn_version("blizzard:p:a") == 1
    table.append(None, sequence=2, user_metadata="")
    assert DeltaTable(str(tmp_path)).version() == 2


def test_an_error_of_deltalake_after_a_commit_that_stands_changes_nothing(
    tmp_path: Path, around: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it looks whether it can make the next one, too."""
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")

    def fails(table: DeltaTable) -> None:
        raise DeltaError("no answer")

    with monkeypatch.context() as patch:
        around(after=lambda: patch.setattr(DeltaTable, "protocol", fails))
        table.append(None, sequence=1, user_metadata="")
        with pytest.raises(RetryableError, match="no answer"):
            table.prepare()
    table.append(None, sequence=2, user_metadata="")
    assert [commit.version for commit in table.commits(9)] == [2, 1, 0]


@pytest.mark.parametrize("value", ["0", "-10", "ten", "1.5", ""])
def test_a_table_that_says_nonsense_about_its_checkpoints_is_refused(
    tmp_path: Path, around: Callable[..., None], value: str
) -> None:
    """Before anything is read, and the commit that came at the same time stands."""
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    around(after=lambda: set_property(tmp_path, "delta.checkpointInterval", value))
    table.append(None, sequence=1, user_metadata="")
    for use in (table.prepare, table.layout, table_of(tmp_path).prepare):
        with pytest.raises(
            PermanentError,
            match=rf"delta.checkpointInterval is '{value}'; expected a whole number, 1 or greater.*= '10'",
        ):
            use()
    assert DeltaTable(str(tmp_path)).version() == 2


def set_property(folder: Path, name: str, value: str) -> None:
    """As some program does that checks no value."""
    table = DeltaTable(str(folder))
    [metadata] = snapshot_actions(LocalStore(folder), "metaData")
    changed = {**metadata, "configuration": {**metadata["configuration"], name: value}}
    LocalStore(folder).create(commit_key(table.version() + 1), json.dumps({"metaData": changed}).encode())


def test_a_new_table_with_nonsense_about_its_checkpoints_is_not_made(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "0"}
    source = TableSource(str(tmp_path), "p:a", "blizzard:p:a", "id STRING", {}, (), table_properties=properties)
    store = LocalStore(tmp_path, may_be_missing=True)
    engine = LocalTable(source, store, OpenTables(dict).at(str(tmp_path), store), clock=time.time, log=silent)
    table = DeltaSourceTable(engine, source, store=store)
    for use in (table.layout, lambda: table.append(None, sequence=0, user_metadata="")):
        with pytest.raises(PermanentError, match=r"delta\.checkpointInterval is '0'"):
            use()
    assert not (tmp_path / "_delta_log").exists()


def test_storage_that_gives_no_answer_to_the_first_commit_leaves_it_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LocalStore.create

    def create(store: LocalStore, key: str, data: bytes) -> Any:
        whole(store, key, data)
        raise StorageUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", create)
        with pytest.raises(CommitOutcomeUnknown, match="no answer"):
            table_of(tmp_path).append(None, sequence=0, user_metadata="")
    assert table_of(tmp_path).txn_version("blizzard:p:a") == 0


def test_a_checkpoint_that_fails_is_told_and_the_commit_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = Logged()
    table = table_of(tmp_path, logged)

    def fails(table: DeltaTable) -> None:
        raise OSError("no room")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", fails)
    for sequence in range(11):
        table.append(None, sequence=sequence, user_metadata="")
    assert DeltaTable(str(tmp_path)).version() == 10
    what = {"table": LocalStore(tmp_path).uri, "version": 10, "error": "OSError: no room"}
    assert logged == [("delta_checkpoint_failed", what)]


def test_a_table_without_files_is_not_large_because_of_what_else_its_checkpoint_has(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.append(None, sequence=0, user_metadata="")
    pointer = tmp_path / LAST_CHECKPOINT
    pointer.write_text('{"version": 0, "size": 90000, "numOfAddFiles": 0}')
    opened = OpenTables(dict).at(str(tmp_path), LocalStore(tmp_path))
    opened._check_size()
    pointer.write_text('{"version": 0, "size": 90000}')
    with pytest.raises(NeedsSpark, match="about 90,000 files"):
        opened._check_size()
