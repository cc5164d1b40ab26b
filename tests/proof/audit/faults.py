"""The faults that the campaign plants in worlds that are healthy without them."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from blizzard.audit.report import AuditReport, Verdict
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Sweep
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.settled_letters import letters_with_settlements
from tests.unit.doctor_world import DoctorWorld
from tests.unit.operator_world import IDENTITY, kinds, paths

DELETED = "a row deleted by hand"
FORGED = "a deleted row and a forged one"
COVERED = "a deleted row and one of a refused record"
NOBODYS, OTHERS = "rows of nobody", "rows of an unknown source"
LOST_DATA, ANEW, UNREADABLE = "a lost data file", "a table written anew", "segment_unreadable"
DOUBLED = "a file doubled by a foreign writer"
LOST_LETTERS = "lost letters"
CONTENTS = "rows of two contents"
WRITERS, DATA_FILES = "table.other-writers", "table.data-files"
OWN = f"_source.source = '{IDENTITY.source_id}'"
RECEIPTS, MANIFEST = "state.receipts", "state.manifest"
"""Ids of the doctor's checks."""


@dataclass(frozen=True, slots=True)
class Planted:
    """`plant` returns the file that it is about, or None if it cannot be planted in this world. `finds`: whether an
    audit shows it under its right name; it has to have this `verdict`. `check`: the doctor's that shows it, too; None:
    it is no matter of the doctor."""

    name: str
    plant: Callable[[DoctorWorld, list[str]], str | None]
    finds: Callable[[AuditReport, str], bool]
    verdict: Verdict
    check: str | None = None


def _delete_row(world: DoctorWorld, files: list[str]) -> str | None:
    """One; the others of its file stay."""
    for path, number in world.rows():
        if path in files:
            world.table().delete(f"{OWN} AND _source.file = '{_quoted(path)}' AND _source.row = {number}")
            return path
    return None


def _forge_row(world: DoctorWorld, files: list[str]) -> str | None:
    """In place of one that is deleted, so that the file has as many as before."""
    path = _delete_row(world, files)
    left = [number for file, number in world.rows() if file == path]
    if path is None or not left:
        return None
    _append(world, path, row=max(left) + 1_000)
    return path


def _cover_row(world: DoctorWorld, files: list[str]) -> str | None:
    """A row with the number of a refused record in place of one that is deleted: as many as before, none twice, none
    behind the others."""
    for path, number, _ in _refused_records(world, files):
        path = _delete_row(world, [path])
        if path is not None and any(file == path for file, _ in world.rows()):
            return _append(world, path, row=number)
    return None


def _write_anew(world: DoctorWorld, files: list[str]) -> str | None:
    """The table, without one file's rows, as another program overwrites it."""
    if not files:
        return None
    table = world.table().to_pyarrow_table()
    write_deltalake(world.table(), table.filter(pc.invert(_is_of(table, files[0]))), mode="overwrite")
    return files[0]


def _append_of_nobody(world: DoctorWorld, files: list[str]) -> str | None:
    return _append(world, files[0]) if files else None


def _append_of_others(world: DoctorWorld, files: list[str]) -> str | None:
    return _append(world, files[0], source="nobody:knows") if files else None


def _append(world: DoctorWorld, path: str, **source: object) -> str:
    """A row of the file once more, with other values in `_source`; without any, with none."""
    rows = world.table().to_pyarrow_table()
    row = rows.filter(_is_of(rows, path)).slice(0, 1).to_pylist()[0]
    row["_source"] = row["_source"] | source if source else None
    write_deltalake(world.table(), pa.Table.from_pylist([row], rows.schema), mode="append")
    return path


def _delete_data_file(world: DoctorWorld, files: list[str]) -> str | None:
    """One with rows of this source: those of others are not this audit's."""
    for name in pa.table(world.table().get_add_actions())["path"].to_pylist():
        file = world.lake / unquote(name)
        if (
            IDENTITY.source_id
            in pc.struct_field(pq.read_table(file, columns=["_source"])["_source"], "source").to_pylist()
        ):
            file.unlink()
            return str(name)
    return None


def _is_of(rows: pa.Table, path: str) -> pa.Array:
    """Of each row, whether it is of this file of this source."""
    source = rows["_source"]
    is_own = pc.equal(pc.struct_field(source, "source"), IDENTITY.source_id)
    return pc.and_(is_own, pc.equal(pc.struct_field(source, "file"), path))


def _quoted(path: str) -> str:
    return path.replace("'", "''")


def _double_rows(world: DoctorWorld, files: list[str]) -> str | None:
    if not files:
        return None
    table = world.table().to_pyarrow_table()
    write_deltalake(world.table(), table.filter(_is_of(table, files[0])), mode="append")
    return files[0]


def _change_content(world: DoctorWorld, files: list[str]) -> str | None:
    if not files or world.settings.get("on_overwrite"):
        return None
    world.land(files[0], "other", "content")
    return files[0]


def lose_receipt(world: DoctorWorld, files: list[str]) -> str | None:
    """The newest one, if its commit brought rows of each of its files: of others the table does not know. Not if one
    of them is announced again: without its receipt it is a file that waits, which another check says."""
    copy = CheckpointCodec(world.store, IDENTITY).read_copy()
    if copy is None or copy.receipt is None:
        return None
    newest = world.state / "receipts" / copy.receipt
    lines = json.loads(gzip.decompress(newest.read_bytes()))["files"]
    manifest = Manifest(world.store, IDENTITY.state_prefix, IDENTITY.source_id)
    waiting = {
        entry.path
        for item in manifest.unconsumed(copy.position, [])
        for entry in item.segment.entries[item.first_entry :]
    }
    if not all(line["rows"] and line["path"] in files and line["path"] not in waiting for line in lines):
        return None
    newest.unlink()
    return newest.name


def _wipe_manifest(world: DoctorWorld, files: list[str]) -> str | None:
    shutil.rmtree(world.state / "pending")
    return ""


def _forge_segment(world: DoctorWorld, files: list[str]) -> str | None:
    """One that is as it should be, but does not know the one before it."""
    number = world.manifest.append([], writer_id="forger", now_ts=0.0, floor=1, sweep=Sweep())
    file = world.state / "pending" / f"{number:020d}.json"
    text = file.read_text().replace(f'"segment":{number}', f'"segment":{number + 1}')
    file.with_name(f"{number + 1:020d}.json").write_text(text)
    return ""


def _damage_segment(world: DoctorWorld, files: list[str]) -> str | None:
    newest = max((world.state / "pending").iterdir(), key=lambda file: file.name)
    number = int(newest.stem) + 1
    (newest.parent / f"{number:020d}.json").write_text('{"format": 1}')
    return ""


def _restore(world: DoctorWorld, files: list[str]) -> str | None:
    """To its first version, if rows came later."""
    table = world.table()
    rows = table.to_pyarrow_table(columns=["_source"]).num_rows
    if not table.version():
        return None
    table.restore(0)
    return "" if world.table().to_pyarrow_table(columns=["_source"]).num_rows < rows else None


def _lose_event(world: DoctorWorld, files: list[str]) -> str | None:
    """Of a file in a folder that no sweep looks at."""
    if not world.settings.get("partition_filter"):
        return None
    path = "date=2020-01-01/lost.ndjson.gz"
    world.land(path, "lost")
    return path


def _refused_records(world: DoctorWorld, files: list[str]) -> Iterator[tuple[str, int, str]]:
    """Those that are still refused: path, number, and the folder of the file's letters."""
    letters = DeadLetters(world.store, IDENTITY.state_prefix, IDENTITY.source_id)
    stored = letters_with_settlements(world.store, IDENTITY.state_prefix, IDENTITY.source_id, [])
    for letter, settlement in stored:
        info = world.source.files.head(str(letter["path"]))
        is_current = info is not None and info.etag == letter["etag"]
        if settlement is None and "row" in letter and letter["path"] in files and is_current:
            folder = letters.dead_letter_folder(str(letter["path"]), str(letter["etag"]))
            yield str(letter["path"]), int(letter["row"]), folder


def _lose_letters(world: DoctorWorld, files: list[str]) -> str | None:
    for path, _, folder in _refused_records(world, files):
        shutil.rmtree(world.lake / folder)
        return path
    return None


def _double_letters(world: DoctorWorld, files: list[str]) -> str | None:
    for path, _, folder in _refused_records(world, files):
        for file in [*(world.lake / folder).iterdir()]:
            shutil.copy(file, file.with_name(f"copy-{file.name}"))
        return path
    return None


def _add_other_content(world: DoctorWorld, files: list[str]) -> str | None:
    return _append(world, files[0], etag="of before") if files else None


BAD, NOTES = Verdict.BAD, Verdict.NOTES
FAULTS = (
    Planted(DELETED, _delete_row, lambda report, path: paths(report, "rows_deleted") == [path], NOTES, WRITERS),
    Planted(FORGED, _forge_row, lambda report, path: paths(report, "rows_added") == [path], BAD, WRITERS),
    Planted(COVERED, _cover_row, lambda report, path: paths(report, "rows_added") == [path], BAD, WRITERS),
    Planted(ANEW, _write_anew, lambda report, path: paths(report, "rows_deleted") == [path], BAD, WRITERS),
    Planted(NOBODYS, _append_of_nobody, lambda report, _: kinds(report) == ["rows_of_nobody"], NOTES, WRITERS),
    Planted(OTHERS, _append_of_others, lambda report, _: kinds(report) == ["rows_of_unknown_sources"], BAD, WRITERS),
    Planted(LOST_DATA, _delete_data_file, lambda report, _: "data_files_lost" in kinds(report), BAD, DATA_FILES),
    Planted(DOUBLED, _double_rows, lambda report, path: paths(report, "doubled") == [path], BAD, WRITERS),
    Planted("a changed etag", _change_content, lambda report, path: paths(report, "changed") == [path], BAD),
    Planted("a lost receipt", lose_receipt, lambda report, _: kinds(report) == ["ledger_incomplete"], NOTES, RECEIPTS),
    Planted("a wiped manifest", _wipe_manifest, lambda report, _: kinds(report) == ["manifest_wiped"], NOTES),
    Planted("a damaged segment", _damage_segment, lambda report, _: kinds(report) == [UNREADABLE], NOTES, MANIFEST),
    Planted("a forged segment", _forge_segment, lambda report, _: kinds(report) == ["manifest_broken"], NOTES),
    Planted("a restored table", _restore, lambda report, _: {*kinds(report)} >= {"table_restored"}, BAD, WRITERS),
    Planted(LOST_LETTERS, _lose_letters, lambda report, path: paths(report, "letters_lost") == [path], BAD),
    Planted("doubled letters", _double_letters, lambda report, path: paths(report, "letters_doubled") == [path], NOTES),
    Planted(CONTENTS, _add_other_content, lambda report, path: paths(report, "other_content") == [path], BAD, WRITERS),
    Planted("a lost event", _lose_event, lambda report, path: paths(report, "missing") == [path], BAD),
)
