"""Delta's checkpoints in each form, its clean-up, and what is lost beside the log."""

import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from blizzard.state.delta_protocol import TXN_RETENTION
from spark_job.loop.ingest import Step
from spark_job.table.file_layout import DEFAULT_CHECKPOINT_INTERVAL
from tests.proof.log_life.table import Life

LONG_AGO_SECS = 40 * 86_400
"""Longer than Delta keeps its log."""
ALL = 100
"""Batches: more than there are."""


def _names(life: Life, pattern: str) -> Sequence[str]:
    """In the log, those that fit."""
    return [file.name for file in life.log_folder.iterdir() if re.fullmatch(pattern, file.name)]


def _somebody_commits(life: Life) -> None:
    """Commits until the version is one for which Delta writes no checkpoint in a form of its own choice."""
    life.insert_foreign_row()
    if life.versions()[-1] % DEFAULT_CHECKPOINT_INTERVAL == 0:
        life.insert_foreign_row()


# --- Checkpoints in each form -----------------------------------------------------------------------------------------


def the_log_has_a_checkpoint_in_one_file(life: Life, rng: random.Random) -> None:
    life.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic')")
    _somebody_commits(life)
    life.make_checkpoint()
    assert _names(life, rf"{life.versions()[-1]:020d}\.checkpoint\.parquet")


def the_log_has_a_checkpoint_in_parts(life: Life, rng: random.Random) -> None:
    life.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic')")
    _somebody_commits(life)
    with life.conf(spark__databricks__delta__checkpoint__partSize="1"):
        life.make_checkpoint()
    found = _names(life, rf"{life.versions()[-1]:020d}\.checkpoint\..*")
    assert len(found) > 1, found
    assert all(re.search(r"\.\d{10}\.\d{10}\.parquet$", name) for name in found), found


def _v2(life: Life, top_level: str) -> None:
    life.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    _somebody_commits(life)
    sizes = {"spark__databricks__delta__checkpoint__partSize": "2"}
    with life.conf(spark__databricks__delta__checkpointV2__topLevelFileFormat=top_level, **sizes):
        life.make_checkpoint()
    assert _names(life, rf"{life.versions()[-1]:020d}\.checkpoint\.[0-9a-f-]+\.{top_level}")
    assert [*(life.log_folder / "_sidecars").glob("*.parquet")]


def the_log_has_a_v2_checkpoint_with_json_on_top(life: Life, rng: random.Random) -> None:
    _v2(life, "json")


def the_log_has_a_v2_checkpoint_with_parquet_on_top(life: Life, rng: random.Random) -> None:
    _v2(life, "parquet")


# --- Clean-up, and what is lost beside it -----------------------------------------------------------------------------


FORMS = (
    the_log_has_a_v2_checkpoint_with_json_on_top,
    the_log_has_a_checkpoint_in_one_file,
    the_log_has_a_v2_checkpoint_with_parquet_on_top,
    the_log_has_a_checkpoint_in_parts,
)
"""Clean-ups use these in turn unless the event asks for one: an old form and a new one meet."""

Do = Callable[[Life, random.Random], object]


def cleaned_up_behind(form: Do) -> Do:
    """The event that cleans up the log after a checkpoint of this form."""

    def do(life: Life, rng: random.Random) -> None:
        _clean_up(life, rng, form)

    do.__name__ = form.__name__.replace("has", "is_cleaned_up_behind", 1)
    return do


CLEANED_UP = [cleaned_up_behind(form) for form in FORMS]


def _clean_up(life: Life, rng: random.Random, form: Do | None = None) -> None:
    """As Delta does after 30 days: only a checkpoint has the Txn, and no commit has the job's state."""
    if form is None:
        life.cleanups = rng.randrange(len(FORMS)) if life.cleanups is None else life.cleanups + 1
        form = FORMS[life.cleanups % len(FORMS)]
    form(life, rng)
    life.cleaned_behind.append(form.__name__.partition("_has_")[2].replace("_", " "))
    newest = life.versions()[-1]
    for file in life.log_folder.iterdir():
        version = file.name.lstrip(".")[:20]
        if version.isdigit() and int(version) < newest and file.is_file():
            then = file.stat().st_mtime - LONG_AGO_SECS
            os.utime(file, (then, then))
    life.forget_in_memory()
    log = life.delta_log()
    none = life.java.scala.Option.empty()
    log.doLogCleanup(log.update(False, none, none), none)
    for crc in life.log_folder.glob("*.crc"):
        crc.unlink()  # it would say the Txn without a look at the checkpoint
    assert min(life.versions()) > newest - 2, life.versions()
    assert life.states_in_log() == [], life.versions()


def the_log_is_cleaned_up_and_the_copy_is_lost(life: Life, rng: random.Random) -> None:
    _clean_up(life, rng)
    life.copy.unlink(missing_ok=True)


def the_log_is_cleaned_up_and_the_copy_is_old(life: Life, rng: random.Random) -> None:
    """The job has committed since the copy was made: a file above the copy's watermark is in the table."""
    _ingest_one_more(life, rng)
    old = life.copy.read_text()
    before = life.state_beside().sequence
    _ingest_one_more(life, rng)
    assert life.state_beside().sequence > before
    _clean_up(life, rng)
    life.copy.write_text(old)


def the_log_is_cleaned_up_in_the_middle_of_a_file(life: Life, rng: random.Random) -> None:
    """Only the rows show how much of the file is in the table."""
    life.arrive_above_all(rng, large=True)
    job = life.job()
    while not (life.copy.exists() and life.in_part()):
        assert job.ingest.step(draining=True) is not Step.IDLE, "no file takes several batches"
    _clean_up(life, rng)
    life.copy.unlink()


def _ingest_one_more(life: Life, rng: random.Random) -> None:
    life.arrive_above_all(rng)
    life.begin(ALL)


# --- Delta forgets Txns for a time ------------------------------------------------------------------------------------


def a_checkpoint_forgets_the_txn(life: Life, rng: random.Random) -> None:
    """Delta may forget Txns until the property is removed, before the next job. The commits still exist."""
    _let_delta_forget(life, rng)
    FORMS[rng.randrange(len(FORMS))](life, rng)
    _keep_txns(life)
    assert life.states_in_log(), life.versions()


def a_clean_up_forgets_the_txn(life: Life, rng: random.Random) -> None:
    """The same without the commits: only the rows and the copy show the source."""
    _let_delta_forget(life, rng)
    _clean_up(life, rng)
    life.cleaned_behind.clear()  # it shows nothing of a form: the Txn is in none
    _keep_txns(life)
    assert not life.states_in_log(), life.versions()


def _let_delta_forget(life: Life, rng: random.Random) -> None:
    _ingest_one_more(life, rng)
    life.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{TXN_RETENTION}' = 'interval 0 seconds')")


def _keep_txns(life: Life) -> None:
    life.sql(f"ALTER TABLE {{table}} UNSET TBLPROPERTIES ('{TXN_RETENTION}')")
    for crc in life.log_folder.glob("*.crc"):
        crc.unlink()
    life.forget_in_memory()
    assert not life.delta_says_txn(), "the checkpoint has the Txn"


def the_txn_is_said_again(life: Life) -> None:
    """With the newest sequence in rows or copy, as docs/runbook.md describes."""
    sequences = [row["_source"]["sequence"] for row in life.own_rows()]
    if life.copy.exists():
        sequences.append(life.state_beside().sequence)
    life.commit_txn(max(sequences))


# --- What is beside the log, and what speeds it up --------------------------------------------------------------------


def the_copy_is_lost(life: Life, rng: random.Random) -> None:
    life.copy.unlink()


def the_copy_is_torn(life: Life, rng: random.Random) -> None:
    text = life.copy.read_text() if life.copy.exists() else "{}"
    life.copy.write_text(text[: rng.randrange(len(text))])


def the_pointer_to_the_last_checkpoint_is_lost(life: Life, rng: random.Random) -> None:
    _pointer(life, rng).unlink()
    life.forget_in_memory()


def _pointer(life: Life, rng: random.Random) -> Path:
    pointer = life.log_folder / "_last_checkpoint"
    if not pointer.exists():
        the_log_has_a_checkpoint_in_one_file(life, rng)
    return pointer


def the_pointer_to_the_last_checkpoint_is_torn(life: Life, rng: random.Random) -> None:
    pointer = _pointer(life, rng)
    body = pointer.read_bytes()
    pointer.write_bytes(body[: rng.randrange(len(body))])
    (life.log_folder / "._last_checkpoint.crc").unlink(missing_ok=True)
    life.forget_in_memory()


def the_checksums_of_the_versions_are_lost(life: Life, rng: random.Random) -> None:
    there = [*life.log_folder.glob("*.crc")]
    assert there, "no version has a checksum"
    for crc in there:
        crc.unlink()
    life.forget_in_memory()
