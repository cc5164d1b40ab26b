"""What users do to the rows of a table. Then the events of exactly these files come again: nothing that was deleted may
come back, nothing that was changed may be doubled."""

import random
from collections.abc import Sequence

from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from tests.proof.ledger.damage import DAMAGES_BESIDE_RECEIPTS, bases_of, damage, name_of, receipts_of, runs_of
from tests.proof.log_life.table import Life

IDENTITY = SourceIdentity("events", "landing", "_blizzard/events_landing")
ALL = 99
"""Batches: until the backlog is gone."""


def a_user_deletes_all_rows_of_some_files(life: Life, rng: random.Random) -> None:
    """As the law may demand."""
    files = _files(life, rng)
    life.delete(_of(files))
    life.announce(*files)


def a_user_deletes_old_rows_and_removes_their_files(life: Life, rng: random.Random) -> None:
    """As a retention rule does every night."""
    files = life.files_in_table()
    life.delete(f"n < {life.newest_record() - rng.randint(0, 40)} AND _source.source = 'events:landing'")
    with life.conf(spark__databricks__delta__retentionDurationCheck__enabled="false"):
        life.sql("VACUUM {table} RETAIN 0 HOURS")
    life.vacuumed_at = life.versions()[-1]
    life.announce(*files)


def a_user_deletes_single_rows(life: Life, rng: random.Random) -> None:
    """The others of their files stay."""
    life.delete(f"n % 2 = {rng.randint(0, 1)} AND {_of(files := _files(life, rng))}")
    life.announce(*files)


def a_user_updates_rows(life: Life, rng: random.Random) -> None:
    """The rows are in other data files afterwards, or in another partition."""
    files = _files(life, rng)
    life.sql(f"UPDATE {{table}} SET kind = 'updated' WHERE {_of(files)}")
    life.announce(*files)


def a_user_merges_changes_and_deletions(life: Life, rng: random.Random) -> None:
    files = _files(life, rng)
    before = life.records()
    life.sql(
        "MERGE INTO {table} AS t USING (SELECT explode(sequence(0, 9)) AS last) AS s ON t.n % 10 = s.last "
        f"AND {_of(files, prefix='t.')} "
        "WHEN MATCHED AND s.last < 4 THEN DELETE WHEN MATCHED THEN UPDATE SET t.kind = 'merged'"
    )
    life.note_deleted(before)
    life.announce(*files)


def a_user_deletes_rows_and_the_ledger_is_lost(life: Life, rng: random.Random) -> None:
    """It is made again from the receipts, which know the files without rows, too."""
    a_user_deletes_all_rows_of_some_files(life, rng)
    store = LocalStore(life.table)
    store.delete(runs_of(store, IDENTITY))
    life.lose_ledger(receipts=False)


def a_user_deletes_rows_and_the_bases_are_lost(life: Life, rng: random.Random) -> None:
    """The checkpoint without them still names the ledger."""
    a_user_deletes_all_rows_of_some_files(life, rng)
    store = LocalStore(life.table)
    store.delete(bases_of(store, IDENTITY))


def a_user_deletes_rows_and_ledger_and_receipts_are_lost(life: Life, rng: random.Random) -> None:
    """Only rows tell what is ingested: files that still have some stay settled, and the others are ingested again."""
    life.begin(ALL)
    a_user_deletes_all_rows_of_some_files(life, rng)
    a_user_deletes_single_rows(life, rng)
    store = LocalStore(life.table)
    store.delete([*runs_of(store, IDENTITY), *receipts_of(store, IDENTITY)])
    life.lose_ledger(receipts=True)
    again = life.without_rows()
    life.removed = {record for record in life.removed if record[0] not in again}
    life.announce(*again)


def the_ledger_is_damaged(life: Life, rng: random.Random) -> None:
    """Runs and receipts."""
    done = damage(LocalStore(life.table), IDENTITY, rng)
    life.lose_ledger(receipts=done not in {name_of(does) for does in DAMAGES_BESIDE_RECEIPTS})
    life.announce(*life.files_in_table())


def _files(life: Life, rng: random.Random) -> list[str]:
    known = sorted(life.files_in_table())
    return rng.sample(known, min(len(known), rng.randint(1, 4)))


def _of(files: Sequence[str], prefix: str = "") -> str:
    names = ", ".join(f"'{file}'" for file in files) or "''"
    return f"{prefix}_source.source = 'events:landing' AND {prefix}_source.file IN ({names})"


USERS = (
    a_user_deletes_all_rows_of_some_files,
    a_user_deletes_old_rows_and_removes_their_files,
    a_user_deletes_single_rows,
    a_user_updates_rows,
    a_user_merges_changes_and_deletions,
    a_user_deletes_rows_and_the_ledger_is_lost,
    a_user_deletes_rows_and_the_bases_are_lost,
    a_user_deletes_rows_and_ledger_and_receipts_are_lost,
    the_ledger_is_damaged,
)
