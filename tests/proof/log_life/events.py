"""Events on a table's log and files, and on the pipelines that ingest into it."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from spark_job.wiring import SourceJob
from tests.proof.log_life import checkpoints, rows
from tests.proof.log_life.table import Life


@dataclass(frozen=True, slots=True)
class Event:
    """`refused`: text of the required refusal; `cure` then repairs the table. `job`: which job runs. `repaired`: the
    required basis of the repaired state, where neither the log nor the copy has it. `calm`: no new files arrive after
    it, because with them the job could continue without the old state."""

    do: Callable[[Life, random.Random], object]
    refused: str = ""
    cure: Callable[[Life], object] = lambda life: None
    job: Callable[[Life], SourceJob] = lambda life: life.job()
    repaired: str = ""
    calm: bool = False

    @property
    def name(self) -> str:
        return self.do.__name__.replace("_", " ")


# --- What somebody sets -----------------------------------------------------------------------------------------------


def somebody_lets_delta_forget_txns(life: Life, rng: random.Random) -> None:
    days = rng.choice(["interval 1 day", "interval 0 seconds", "interval 52 weeks"])
    life.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = '{days}')")


def keep_txns(life: Life) -> None:
    life.sql("ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ('delta.setTransactionRetentionDuration')")


# --- The table is made again, restored, copied, renamed ---------------------------------------------------------------


def the_table_is_dropped(life: Life, rng: random.Random) -> None:
    shutil.rmtree(life.table)
    life.forget_in_memory()
    life.removed.clear()
    life.gone.clear()
    life.receipts_whole = True
    life.vacuumed_at = -1


def the_table_is_dropped_but_not_what_blizzard_put_beside_it(life: Life, rng: random.Random) -> None:
    life.begin(9)  # so that sweeps begin behind what is ingested
    for path in life.table.iterdir():
        if path.name != "_blizzard":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    life.forget_in_memory()
    life.removed.clear()
    life.gone.clear()
    life.vacuumed_at = -1


def the_table_is_overwritten_with_nothing(life: Life, rng: random.Random) -> None:
    before = life.records()
    nothing = life.spark().read.format("delta").load(str(life.table)).limit(0)
    writer = nothing.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy(life.partition_by).save(str(life.table))
    life.note_deleted(before)


def the_table_is_restored_to_an_older_version(life: Life, rng: random.Random) -> None:
    before = life.records()
    older = life.restorable()[-4:-1]
    if not older:  # a clean-up has left the newest alone
        life.insert_foreign_row()
        older = life.restorable()[:-1]
    life.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {rng.choice(older)}")
    keep_txns(life)  # the older version may be one at which Delta was to forget them
    life.note_deleted(before)  # the job goes on at its position: it ingests nothing of that again
    life.announce(*{file for file, _ in before - life.records()})


def a_backup_of_the_whole_table_takes_its_place(life: Life, rng: random.Random) -> None:
    _back_up_and_go_on(life, rng)
    assert life.backup is not None
    folder, removed, gone = life.backup
    shutil.rmtree(life.table)
    shutil.copytree(folder, life.table)
    life.removed, life.gone = {*removed}, {*gone}
    life.vacuumed_at = life.versions()[-1]
    life.forget_in_memory()


def a_backup_of_the_log_and_the_data_takes_their_place(life: Life, rng: random.Random) -> None:
    """The state beside the table is then newer than the table."""
    newer = life.folder / "newer"
    _back_up_and_go_on(life, rng)
    assert life.backup is not None
    folder, removed, gone = life.backup
    shutil.rmtree(newer, ignore_errors=True)
    (life.table / "_blizzard").rename(newer)
    shutil.rmtree(life.table)
    shutil.copytree(folder, life.table)
    shutil.rmtree(life.table / "_blizzard")
    newer.rename(life.table / "_blizzard")
    life.removed, life.gone = {*removed}, {*gone}
    life.lose_ledger(receipts=False)
    life.vacuumed_at = life.versions()[-1]
    life.forget_in_memory()


def _back_up_and_go_on(life: Life, rng: random.Random) -> None:
    if life.backup is None or rng.random() < 0.5:
        folder = life.folder / "backup"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(life.table, folder)
        life.backup = (folder, {*life.removed}, {*life.gone})
        life.arrive(rng)
        life.begin(9)


def the_table_is_copied_to_another_place(life: Life, rng: random.Random) -> None:
    here = life.table
    life.move()
    shutil.copytree(here, life.table)
    shutil.rmtree(here)


def the_table_is_copied_without_what_blizzard_put_beside_it(life: Life, rng: random.Random) -> None:
    the_table_is_copied_to_another_place(life, rng)
    shutil.rmtree(life.table / "_blizzard")
    life.lose_ledger(receipts=True)


def the_table_is_renamed(life: Life, rng: random.Random) -> None:
    here = life.table
    life.move()
    here.rename(life.table)


def the_rows_are_copied_without_the_log(life: Life, rng: random.Random) -> None:
    life.aside = life.place
    here = life.table
    life.move()
    rows = life.spark().read.format("delta").load(str(here))
    rows.write.format("delta").partitionBy(life.partition_by).save(str(life.table))


def the_table_is_cloned(life: Life, rng: random.Random) -> None:
    life.aside = life.place
    here = life.table
    life.move()
    life.sql(f"CREATE TABLE {{table}} SHALLOW CLONE delta.`{here}`")


def back_to_the_first(life: Life) -> None:
    shutil.rmtree(life.table)
    life.place = life.aside


# --- Another name -----------------------------------------------------------------------------------------------------


def the_pipeline_has_another_name(life: Life, rng: random.Random) -> None:
    """Does nothing to the table."""


def the_source_has_another_name(life: Life, rng: random.Random) -> None:
    """Does nothing to the table."""


NO_TXN = "holds rows of source events:landing but no Txn"
OTHER_NAME = r"the same files under another name.*events:landing"

REFUSED = "refused with the reason"
FROM_COPY = "states repaired from an older copy"
FROM_ROWS = "states repaired from the rows alone"

EVENTS = [
    Event(checkpoints.the_log_has_a_checkpoint_in_one_file),
    Event(checkpoints.the_log_has_a_checkpoint_in_parts),
    Event(checkpoints.the_log_has_a_v2_checkpoint_with_json_on_top),
    Event(checkpoints.the_log_has_a_v2_checkpoint_with_parquet_on_top),
    *(Event(cleaned_up) for cleaned_up in checkpoints.CLEANED_UP),
    Event(checkpoints.the_log_is_cleaned_up_and_the_copy_is_lost, repaired=FROM_ROWS),
    Event(checkpoints.the_log_is_cleaned_up_and_the_copy_is_old, repaired=FROM_COPY),
    Event(checkpoints.the_log_is_cleaned_up_in_the_middle_of_a_file, repaired=FROM_ROWS),
    Event(checkpoints.a_checkpoint_forgets_the_txn),
    Event(checkpoints.a_clean_up_forgets_the_txn, NO_TXN, checkpoints.the_txn_is_said_again),
    Event(checkpoints.the_copy_is_lost),
    Event(checkpoints.the_copy_is_torn),
    Event(checkpoints.the_pointer_to_the_last_checkpoint_is_lost),
    Event(checkpoints.the_pointer_to_the_last_checkpoint_is_torn),
    Event(checkpoints.the_checksums_of_the_versions_are_lost),
    Event(somebody_lets_delta_forget_txns, r"setTransactionRetentionDuration.*UNSET TBLPROPERTIES", keep_txns),
    *(Event(by_user) for by_user in rows.USERS),
    Event(the_table_is_dropped),
    Event(the_table_is_dropped_but_not_what_blizzard_put_beside_it, calm=True),
    Event(the_table_is_overwritten_with_nothing),
    Event(the_table_is_restored_to_an_older_version),
    Event(a_backup_of_the_whole_table_takes_its_place),
    Event(a_backup_of_the_log_and_the_data_takes_their_place),
    Event(the_table_is_copied_to_another_place),
    Event(the_table_is_copied_without_what_blizzard_put_beside_it),
    Event(the_table_is_renamed),
    Event(the_rows_are_copied_without_the_log, NO_TXN, back_to_the_first),
    Event(the_table_is_cloned, NO_TXN, back_to_the_first),
    Event(the_pipeline_has_another_name, OTHER_NAME, job=lambda life: life.job_named("orders", "landing")),
    Event(the_source_has_another_name, OTHER_NAME, job=lambda life: life.job_named("events", "orders")),
]
"""In any order."""
