"""Compares a batch with an independent reading of the same bytes: each record is in one place, unchanged, and
counted."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blizzard.state.dead_letters import Stage
from spark_job.ports.reader import Outcome
from tests.proof.bad_input.plain import Plain, is_utf8, plainly
from tests.proof.bad_input.reader import Found
from tests.proof.bad_input.records import Fate, record_of
from tests.proof.campaign import Failed

ERROR_CHARS = 3_000


def compare(files: Mapping[str, bytes], found: Found, *, is_text: bool = False) -> None:
    """Raises Failed unless each record of each file is in exactly one place, unchanged, and nothing else is
    anywhere."""
    by_path = _grouped(found)
    outcomes = {outcome.path: outcome for outcome in found.outcomes}
    if sorted(outcomes) != sorted(files) or len(found.outcomes) != len(files):
        raise Failed(f"outcomes of {len(outcomes)} files; expected one for each of {len(files)}")
    if strangers := by_path.keys() - files.keys():
        raise Failed(f"rows or letters of files that are not there: {sorted(strangers)[:3]!a}")
    for path, body in files.items():
        try:
            plain = plainly(path, body, is_text=is_text)
            _compare_file(plain, outcomes[path], by_path.get(path, _Places()), is_text=is_text)
        except Failed as failed:
            raise Failed(f"{path!a}: {failed.why}", [f"a file {path!a} of {shown(body)}"]) from None


def shown(body: bytes) -> str:
    return f"{len(body)} bytes: {body[:300]!r}" + ("…" if len(body) > 300 else "")


@dataclass(slots=True)
class _Places:
    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    undecided: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    letters: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict)


def _grouped(found: Found) -> dict[str, _Places]:
    by_path: dict[str, _Places] = {}
    for row in found.rows:
        source = row["_source"]
        by_path.setdefault(source["file"], _Places()).rows.setdefault(source["row"], []).append(row)
    for line in found.undecided:
        by_path.setdefault(line["file"], _Places()).undecided.setdefault(line["row"], []).append(line)
    for letter in found.letters:
        by_path.setdefault(letter["path"], _Places()).letters.setdefault(letter.get("row"), []).append(letter)
    return by_path


def _compare_file(plain: Plain, outcome: Outcome, places: _Places, *, is_text: bool) -> None:
    if outcome.error is not None:
        if outcome.stage not in plain.faults:
            raise Failed(f"dead at {outcome.stage} ({outcome.error:.200}); a plain reading ends at {[*plain.faults]}")
        if places.rows:
            raise Failed(f"{len(places.rows)} rows of a file that is dead as a whole")
        _check_letter(places.letters.get(None, []), outcome.stage)
        return
    if plain.faults:
        raise Failed(f"taken as sound, though a plain reading finds a fault of {[*plain.faults]}")
    if None in places.letters:
        raise Failed("a letter for the whole of a file that was read")
    numbers = {*places.rows, *places.undecided, *(row for row in places.letters if row is not None)}
    if not numbers <= set(range(len(plain.lines))):
        raise Failed(f"records {sorted(numbers - set(range(len(plain.lines))))[:5]} of {len(plain.lines)}")
    for number, line in enumerate(plain.lines):
        what = f"record {number} ({shown(line)})"
        _check_one_place(what, number, places)
        (_compare_text if is_text else _compare_json)(what, number, line, places)
    alive = len(places.rows) + len(places.undecided)
    if (outcome.rows, outcome.dead_records) != (alive, len(places.letters)):
        raise Failed(
            f"counted as {outcome.rows} rows and {outcome.dead_records} dead records; expected {alive} and "
            f"{len(places.letters)}"
        )


def _check_one_place(what: str, number: int, places: _Places) -> None:
    rows, left, letters = (len(of.get(number, [])) for of in (places.rows, places.undecided, places.letters))
    if rows + left + letters != 1:
        raise Failed(f"{what} is in {rows} rows, {letters} letters, {left} lines for Spark; expected 1")


def _compare_json(what: str, number: int, line: bytes, places: _Places) -> None:
    record = record_of(line)
    letters = places.letters.get(number, [])
    if not record.is_object and not letters:
        raise Failed(f"{what} is no JSON object and is no dead letter")
    if record.fate is Fate.ROW and letters:
        raise Failed(f"{what} is good and dead: {letters[0]['error']:.200}")
    if letters:
        _check_letter(letters, Stage.PARSE)
        if letters[0].get("raw", "").encode() != line:
            raise Failed(f"{what}: its letter holds {letters[0].get('raw')!r:.200}")
    for left in places.undecided.get(number, []):
        if left["line"].encode() != line:
            raise Failed(f"{what}: Spark would get {left['line']!r:.200}")
    for row in places.rows.get(number, []):
        if why := record.differs(row):
            raise Failed(f"{what}: {why}")


def _compare_text(what: str, number: int, line: bytes, places: _Places) -> None:
    for row in places.rows.get(number, []):
        if row["value"] is None or row["value"].encode() != line:
            raise Failed(f"{what}: value became {row['value']!r:.200}")
    if letters := places.letters.get(number, []):
        if is_utf8(line):
            raise Failed(f"{what} is good and dead: {letters[0]['error']:.200}")
        _check_letter(letters, Stage.PARSE)
        if base64.b64decode(letters[0].get("raw_base64", "")) != line:
            raise Failed(f"{what}: its letter holds {letters[0].get('raw_base64')!r:.200}")


def _check_letter(letters: Sequence[Mapping[str, Any]], stage: Stage | None) -> None:
    if len(letters) != 1:
        raise Failed(f"{len(letters)} dead letters; expected one: the loss is silent")
    letter = letters[0]
    if letter["stage"] != stage or not 0 < len(letter["error"]) <= ERROR_CHARS:
        raise Failed(
            f"a letter of stage {letter['stage']} with {letter['error']!r:.200}; expected {stage} and a reason"
        )
