"""Checks that end a run before it writes: since files would be ingested twice, in a table that loses Txns or from a
source that was renamed, or since the table refuses what is to be done."""

from collections.abc import Callable, Mapping, Sequence

from blizzard.errors import PermanentError, RecoveryError
from blizzard.state.delta_protocol import TXN_RETENTION
from spark_job.ports.table import SourceFile

MAX_FILES_CHECKED = 100
"""The newest files of other sources; older ones may no longer be in the source."""

APPEND_ONLY = "delta.appendOnly"

HasFile = Callable[[str, str], bool]
"""Whether the source has this path with this etag now."""


def check_txns_are_kept(properties: Mapping[str, str], uri: str) -> None:
    """Raises PermanentError for a table that expires old Txns: the files of an expired Txn would be ingested again."""
    for name, value in properties.items():
        if name.lower() == TXN_RETENTION.lower():
            raise PermanentError(
                f"table {uri} has {name} = '{value}', so Delta expires the Txns that tell which files are "
                "ingested, and their rows would be doubled. Expected a table without that property: "
                f"ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('{name}'), and "
                "remove it from the session's defaults if it is set there."
            )


def why_no_replacing(properties: Mapping[str, str], uri: str) -> str | None:
    """Why the rows of overwritten files cannot be taken out of a table; None: they can."""
    if not any(name.lower() == APPEND_ONLY.lower() and value.lower() == "true" for name, value in properties.items()):
        return None
    return (
        f"table {uri} has {APPEND_ONLY} = true, so nothing can take the rows of an overwritten file out. Set "
        "`on_overwrite: ignore` or `dead_letter`, or allow it: "
        f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false')"
    )


def check_source_was_not_renamed(others: Sequence[SourceFile], source_id: str, has_file: HasFile) -> None:
    """Checks a source of which the table has no rows. `others`: the newest files of sources that the pipeline does not
    have.

    Raises RecoveryError when the table holds files of this source under such a name.
    """
    for found in others:
        if has_file(found.path, found.etag):
            raise RecoveryError(
                f"the table has no Txn of source {source_id}, but it holds the same files under another name: "
                f"{found.path} came from source {found.source}. Ingesting them again would double their rows. "
                "The likely cause is that the pipeline or the source was renamed. Give it its former name back, or "
                "write to another table."
            )
