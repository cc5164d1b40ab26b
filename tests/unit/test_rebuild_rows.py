"""What a swap does with rows of the old table that no file brings into the new one, and with deleted ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from spark_job.rebuild import held_rows
from spark_job.rebuild.compare import Accepted
from spark_job.rebuild.parts import Parts
from tests.unit.rebuild_lake import CONFIG, RebuildLake, told_by_process

LEGACY = CONFIG[CONFIG.index("      shop:") :].replace("shop:", "legacy:").replace("incoming", "other")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RebuildLake:
    monkeypatch.chdir(tmp_path)
    made = RebuildLake(tmp_path)
    for name in ("a", "b"):
        made.land(f"{name}.ndjson", bad=name == "b")
    assert made.run() == 0
    return made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return told_by_process(monkeypatch)


def delete(lake: RebuildLake, table: str, what: str) -> None:
    assert DeltaTable(lake.uri(table)).delete(what)["num_deleted_rows"]


def rows_of(lake: RebuildLake, table: str) -> pa.Table:
    return DeltaTable(lake.uri(table)).to_pyarrow_table()


def ids(lake: RebuildLake, table: str) -> list[str]:
    return sorted(rows_of(lake, table)["id"].to_pylist())


def ingest_legacy(lake: RebuildLake) -> None:
    """Of a source that is removed from the configuration then."""
    lake.file.write_text(CONFIG + LEGACY)
    lake.land("../other/l.ndjson", 2)
    assert lake.run() == 0
    lake.file.write_text(CONFIG)


def test_rows_that_somebody_deleted_do_not_come_back_unless_the_operator_says_so(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    delete(lake, "lake", "id = 'a.ndjson 1'")
    version = DeltaTable(lake.uri("lake")).version()
    assert lake.rebuild_table() == 1
    found = told[-1]["compared"]
    assert (found["deleted_rows"], found["names"]) == (1, {"other_rows": ["a.ndjson"], "deleted": ["a.ndjson"]})
    assert DeltaTable(lake.uri("lake")).version() == version
    assert lake.rebuild_table(accepted=Accepted(gone=True, others=True)) == 1
    assert lake.rebuild_table(accepted=Accepted(deleted=True)) == 0
    lake.check("new")


def test_rows_that_were_deleted_from_both_tables_are_no_obstacle(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    delete(lake, "lake", "id = 'a.ndjson 1'")
    assert lake.rebuild_table() == 1
    delete(lake, "new", "id = 'a.ndjson 1'")
    assert lake.rebuild_table() == 0
    assert ids(lake, "new") == ids(lake, "lake")
    assert told[-1]["swapped"]


def test_rows_that_were_deleted_from_the_new_table_only_stop_the_swap(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    """As many as in the old one, and others."""
    delete(lake, "lake", "id = 'a.ndjson 1'")
    assert lake.rebuild_table(swap=False) == 0
    delete(lake, "new", "id = 'a.ndjson 2'")
    assert lake.rebuild_table(accepted=Accepted(others=True, deleted=True)) == 1
    assert told[-1]["compared"]["names"] == {"fewer_rows": ["a.ndjson"]}


def test_a_file_whose_rows_were_all_deleted_is_no_loss_once_its_source_has_it_no_more(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    delete(lake, "lake", "_source.file = 'a.ndjson'")
    (lake.folder / "incoming/a.ndjson").unlink()
    assert lake.rebuild_table() == 0
    lake.check("new", gone=frozenset({"a.ndjson"}))


def test_rows_of_a_source_that_was_removed_stop_the_swap_until_the_new_table_has_them(
    lake: RebuildLake, told: list[dict[str, Any]]
) -> None:
    ingest_legacy(lake)
    assert lake.rebuild_table() == 1
    assert {"others": [{"source": "orders:legacy", "rows": 2, "new_rows": 0}]} in told
    assert told[-1] == {"compared": told[-1]["compared"], "complete": False}
    assert lake.rebuild_table(accepted=Accepted(gone=True, deleted=True)) == 1
    legacy = [each["source"] == "orders:legacy" for each in rows_of(lake, "lake")["_source"].to_pylist()]
    write_deltalake(lake.uri("new"), rows_of(lake, "lake").filter(legacy), mode="append")
    assert lake.rebuild_table() == 0
    assert ids(lake, "new") == ids(lake, "lake")


def test_an_operator_may_go_on_without_rows_of_others(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    ingest_legacy(lake)
    assert lake.rebuild_table(accepted=Accepted(others=True)) == 0
    lake.check("new", gone=frozenset({"../other/l.ndjson"}))


def test_rows_of_nobody_stop_the_swap(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    rows = rows_of(lake, "lake").slice(0, 1)
    nothing = pa.array([None], rows.schema.field("_source").type)
    nobodys = rows.set_column(rows.schema.get_field_index("_source"), rows.schema.field("_source"), nothing)
    write_deltalake(lake.uri("lake"), nobodys, mode="append")
    assert lake.rebuild_table() == 1
    assert {"others": [{"source": None, "rows": 1, "new_rows": 0}]} in told


def test_rows_of_a_file_that_no_commit_has_stop_the_swap(lake: RebuildLake, told: list[dict[str, Any]]) -> None:
    rows = rows_of(lake, "lake").slice(0, 1)
    [source] = rows["_source"].to_pylist()
    forged = pa.array([source | {"file": "forged.ndjson"}], rows.schema.field("_source").type)
    rows = rows.set_column(rows.schema.get_field_index("_source"), rows.schema.field("_source"), forged)
    write_deltalake(lake.uri("lake"), rows, mode="append")
    assert lake.rebuild_table(accepted=Accepted(others=True, deleted=True)) == 1
    assert told[-1]["compared"]["names"] == {"gone": ["forged.ndjson"]}


def test_a_table_whose_rows_cannot_be_counted_is_swapped_only_if_the_operator_accepts_all_of_it(
    lake: RebuildLake, told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: Any) -> held_rows.ActiveFiles:
        return held_rows.ActiveFiles(problem="the table maps its columns to other names")

    monkeypatch.setattr(held_rows, "active_files", unreadable)
    accepts = (Accepted(), Accepted(others=True), Accepted(deleted=True), Accepted(others=True, deleted=True))
    for accepted in accepts:
        assert lake.rebuild_table(accepted=accepted) == 1
        assert "maps its columns" in told[-1]["compared"]["problem"]
    assert lake.rebuild_table(accepted=Accepted(others=True, deleted=True, changed=True)) == 0
    lake.check("new")


class Counts:
    """Of the old table before an operator agrees: which versions are counted. `within`: called as each count begins."""

    def __init__(self, lake: RebuildLake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.versions = list[int]()
        self.agreed = False
        self.within: Callable[[], None] = lambda: None
        read = held_rows.active_files

        def active_files(uri: str, version: int, *more: Any) -> held_rows.ActiveFiles:
            found = read(uri, version, *more)
            if uri == lake.uri("lake") and not self.agreed:
                self.versions.append(version)
                self.within()
            return found

        monkeypatch.setattr(held_rows, "active_files", active_files)

    def agree(self) -> bool:
        self.agreed = True
        return True


def commit_another(lake: RebuildLake) -> None:
    """A job of the old table does."""
    lake.land(f"{len(lake.landed)}.ndjson")
    assert lake.run() == 0


def test_a_job_that_commits_while_rows_are_counted_does_not_make_them_be_counted_anew(
    lake: RebuildLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts(lake, monkeypatch)
    counts.within = lambda: commit_another(lake)
    version = DeltaTable(lake.uri("lake")).version()
    assert lake.rebuild_table(agreed=counts.agree) == 0
    assert counts.versions == [version]
    lake.check("new")


@pytest.mark.parametrize(("commits", "counted"), [(1, [1, 1]), (5, [5, 5])])
def test_rows_are_counted_in_the_version_that_the_ledger_is_of(
    lake: RebuildLake, monkeypatch: pytest.MonkeyPatch, commits: int, counted: list[int]
) -> None:
    """Unless a job commits after every look at the ledger: then rows of the last of these commits are counted, too,
    without their entry, so that none can be lost. Compared twice: files of these commits are announced between."""
    counts, recovered, left = Counts(lake, monkeypatch), Parts.recovered, [*range(commits)]

    def then_commit(parts: Parts, *more: Any, **options: Any) -> Any:
        found = recovered(parts, *more, **options)
        if parts.state.uri.rstrip("/").endswith("/lake") and not counts.agreed and left:
            left.pop()
            commit_another(lake)
        return found

    monkeypatch.setattr(Parts, "recovered", then_commit)
    assert lake.rebuild_table(agreed=counts.agree) == 0
    assert counts.versions == counted
    lake.check("new")


def test_the_command_says_which_rows_are_lost_or_come_back_and_what_to_do(
    lake: RebuildLake, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest_legacy(lake)
    delete(lake, "lake", "id = 'a.ndjson 1'")
    swap = ["rebuild", "pipelines.yaml", "--to", "new", "--swap", "--yes"]
    assert main(swap) == 1
    shown = capsys.readouterr().out
    assert "1 rows of 1 files are no longer in the old table, so somebody has deleted them, and they come back" in shown
    assert "or say --with-deleted: a.ndjson\n" in shown
    assert "2 rows of the old table are of orders:legacy, which is no source of it" in shown
    assert "the new table did not take the place of the old one" in shown
    assert main([*swap, "--with-deleted", "--without-others", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["others"] == [{"source": "orders:legacy", "rows": 2, "new_rows": 0}]
    assert (document["sources"][0]["deleted_rows"], document["swapped"]) == (1, True)
