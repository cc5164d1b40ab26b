"""The data files of one version of a table, read by deltalake."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from blizzard.log import first_line
from blizzard.state.delta_protocol import ABSOLUTE
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.added_files import AddedFile, added_files
from blizzard.table.locations import MISREAD
from blizzard.table.own_process import in_own_process
from blizzard.table.storage_options import storage_options

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAPPED_COLUMNS = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True)
class ActiveFiles:
    """`deleted`: by the path of a file with a deletion vector, the numbers of the rows that are deleted. `problem`: why
    the files are not known, or their rows cannot be read here; None: they can."""

    files: Sequence[AddedFile] = ()
    deleted: Mapping[str, Sequence[int]] = field(default_factory=dict)
    problem: str | None = None


def active_files(uri: str, version: int, settings: S3Settings) -> ActiveFiles:
    """Of this version of the table. On S3 they are read in a process of their own: threads of deltalake may abort a
    process that ends in the usual way."""
    if misread := MISREAD.intersection(uri):
        return ActiveFiles(
            problem=f"the table's location has {' '.join(sorted(misread))} in it, which deltalake misreads"
        )
    return in_own_process(_read, uri, version, settings) if is_on_s3(uri) else _read(uri, version, settings)


def _read(uri: str, version: int, settings: S3Settings) -> ActiveFiles:
    from deltalake.exceptions import DeltaError

    try:
        return files_of(opened(uri, version, settings))
    except (DeltaError, OSError) as error:
        return ActiveFiles(problem=f"deltalake cannot read the table: {first_line(str(error)):.300}")


def files_of(table: "DeltaTable") -> ActiveFiles:
    """Errors of deltalake."""
    if table.metadata().configuration.get(MAPPED_COLUMNS, "none") != "none":
        return ActiveFiles(problem="the table maps its columns to other names")
    files = added_files(table)
    if any(ABSOLUTE.match(file.path) for file in files):
        return ActiveFiles(problem="some of its data files are outside the table's folder, as those of a shallow clone")
    return ActiveFiles(files, _deleted_rows(table))


def ever_committed(uri: str, version: int, settings: S3Settings, app_ids: Collection[str]) -> frozenset[str]:
    """Which of these have a Txn in the table. Only for one whose `active_files` have no problem."""
    asked = uri, version, settings, app_ids
    return in_own_process(_with_txn, *asked) if is_on_s3(uri) else _with_txn(*asked)


def _with_txn(uri: str, version: int, settings: S3Settings, app_ids: Collection[str]) -> frozenset[str]:
    table = opened(uri, version, settings)
    return frozenset(app_id for app_id in app_ids if table.transaction_version(app_id) is not None)


def opened(uri: str, version: int | None, settings: S3Settings) -> "DeltaTable":
    """`version` None: the newest. Errors of deltalake."""
    from deltalake import DeltaTable

    options = dict(storage_options(settings)) if is_on_s3(uri) else None
    return DeltaTable(uri, version=version, storage_options=options)


def is_on_s3(uri: str) -> bool:
    return uri.startswith(("s3:", "s3a:"))


def _deleted_rows(table: "DeltaTable") -> dict[str, Sequence[int]]:
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    import pyarrow as pa

    found = pa.table(table.deletion_vectors())
    root = unquote(table.table_uri).rstrip("/") + "/"
    paths = (unquote(location).removeprefix(root) for location in found["filepath"].to_pylist())
    return {
        path: [number for number, kept in enumerate(vector) if not kept]
        for path, vector in zip(paths, found["selection_vector"].to_pylist(), strict=True)
    }
