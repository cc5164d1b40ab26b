"""Rows of a table that has lost its Txn which nobody can account for, and the race of a rebuild that was lost."""

from collections.abc import Collection
from typing import Any

from blizzard.errors import LostRace, RecoveryError
from spark_job.ports.table import FileTable


def refuse_unknown_rows(table: FileTable[Any], source_id: str, known: Collection[str]) -> None:
    """`known`: the ids of all configured sources of the table. Raises RecoveryError for rows of others, or of none."""
    advice = (
        "Expected only rows whose `_source` names a source of the configuration: they tell which files are in. "
        "Nothing was written. "
    )
    if table.holds_rows_of_nobody():
        raise RecoveryError(
            f"the table has lost its Txn of source {source_id}, and it holds rows that name no "
            f"source. {advice}Remove these rows, or, if they are none of this source's files, set the Txn by hand "
            "as docs/runbook.md says (A table without its Txn)."
        )
    others = sorted({each.source for each in table.files_of_others()} - {*known})
    if others:
        raise RecoveryError(
            f"the table has lost its Txn of source {source_id}, and it holds rows of sources that "
            f"are not in the configuration: {', '.join(others)}. {advice}If one of them is this source's former "
            "name, give it that name back; else add them to the configuration again, or remove their rows."
        )


def lost_race(source_id: str) -> LostRace:
    return LostRace(
        f"another process has committed to source {source_id} meanwhile, so this state is not "
        "committed. Nothing is lost or doubled: start `blizzard rebuild` again, which looks at the table anew."
    )
