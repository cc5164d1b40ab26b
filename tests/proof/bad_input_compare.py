"""What a plain reading of the same bytes says of a batch: each record is in one place, as it was."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from blizzard.dead_letters import Stage
from spark_job.ports import Outcome
from tests.proof.bad_input_corpus import MOST_FILE_BYTES, MOST_RECORD_BYTES
from tests.proof.bad_input_reader import Found
from tests.proof.campaign import Failed

ERROR_CHARS = 3_000

# --- The plain reading ---


@dataclass(frozen=True, slots=True)
class Plain:
    """`faults`: at which stages the whole file may end; none: each of `lines` is a row or a letter."""

    faults: frozenset[Stage]
    lines: Sequence[bytes]


def plainly(path: str, body: bytes) -> Plain:
    faults: set[Stage] = set()
    if path.endswith((".gz", ".zst")):
        body, sound = _inflated(body) if path.endswith(".gz") else _unpacked(body)
        faults |= set() if sound else {Stage.DECOMPRESS}
    if len(body) > MOST_FILE_BYTES:
        faults.add(Stage.DECOMPRESS)
    lines = [line.removesuffix(b"\r") for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    lines = [line for line in lines if line.strip(b" \t\r\v\f")]
    if any(len(line) > MOST_RECORD_BYTES for line in lines) or not _is_utf8(b"\n".join(lines)):
        faults.add(Stage.PARSE)
    return Plain(frozenset(faults), lines)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inflated(body: bytes) -> tuple[bytes, bool]:
    """By zlib, a little more than the limit at most; and whether it is gzip to its end."""
    out, rest = b"", body
    while rest and len(out) <= MOST_FILE_BYTES:
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(rest, MOST_FILE_BYTES + 1)
            while member.unconsumed_tail and len(out) <= MOST_FILE_BYTES:
                out += member.decompress(member.unconsumed_tail, MOST_FILE_BYTES + 1)
        except zlib.error:
            return out, False
        if len(out) > MOST_FILE_BYTES:
            return out, True
        if not member.eof:
            return out, False
        rest = member.unused_data.lstrip(b"\0")
    return out, True


def _unpacked(body: bytes) -> tuple[bytes, bool]:
    try:
        return pa.CompressedInputStream(pa.BufferReader(body), "zstd").read(MOST_FILE_BYTES + 1), True
    except OSError:
        return b"", False


def _record(line: bytes) -> tuple[str, dict[str, Any]]:
    """What a line is: `good` (a row for sure), `object` (may be one), `dead` (never one)."""
    doubled = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        doubled = doubled or len(dict(found)) < len(found)
        return dict(found)

    try:
        value = json.loads(line.decode(), object_pairs_hook=pairs)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "dead", {}
    except RecursionError:
        return "object", {"deep": True}
    except ValueError as error:
        return ("object", {}) if "limit" in str(error) and "digits" in str(error) else ("dead", {})
    if not isinstance(value, dict):
        return "dead", {}
    n = value.get("n", 0)
    texts = (value.get("id"), value.get("kind", ""))
    plain = set(value) <= {"id", "n", "kind"} and all(isinstance(text, str) and "\0" not in text for text in texts)
    if plain and not doubled and type(n) is int and -(2**63) <= n < 2**63:
        return "good", value
    return "object", {"doubled": doubled, **value} if doubled else value


# --- The comparison ---


def compare(files: Mapping[str, bytes], found: Found) -> None:
    """Each record of each file is in exactly one place, as it was, and nothing else is anywhere. Raises Failed."""
    by_path = _grouped(found)
    outcomes = {outcome.path: outcome for outcome in found.outcomes}
    if sorted(outcomes) != sorted(files) or len(found.outcomes) != len(files):
        raise Failed(f"outcomes of {len(outcomes)} files; expected one for each of {len(files)}")
    if strangers := by_path.keys() - files.keys():
        raise Failed(f"rows or letters of files that are not there: {sorted(strangers)[:3]!a}")
    for path, body in files.items():
        try:
            _compare_file(plainly(path, body), outcomes[path], by_path.get(path, _Places()))
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


def _compare_file(plain: Plain, outcome: Outcome, places: _Places) -> None:
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
        _compare_line(number, line, places)


def _compare_line(number: int, line: bytes, places: _Places) -> None:
    rows, left = places.rows.get(number, []), places.undecided.get(number, [])
    letters = places.letters.get(number, [])
    what = f"record {number} ({shown(line)})"
    if len(rows) + len(left) + len(letters) != 1:
        raise Failed(f"{what} is in {len(rows)} rows, {len(letters)} letters, {len(left)} lines for Spark; expected 1")
    kind, values = _record(line)
    if kind == "dead" and not letters:
        raise Failed(f"{what} is no JSON object and is no dead letter")
    if kind == "good" and letters:
        raise Failed(f"{what} is good and dead: {letters[0]['error']:.200}")
    if letters:
        _check_letter(letters, Stage.PARSE)
        if letters[0].get("raw", "").encode() != line:
            raise Failed(f"{what}: its letter holds {letters[0].get('raw')!r:.200}")
    if left and left[0]["line"].encode() != line:
        raise Failed(f"{what}: Spark would get {left[0]['line']!r:.200}")
    expected = {"id": values.get("id"), "n": values.get("n"), "kind": values.get("kind") or None}
    if rows and kind == "good" and {name: rows[0][name] for name in expected} != expected:
        raise Failed(f"{what} became the row {rows[0]!r:.300}")


def _check_letter(letters: Sequence[Mapping[str, Any]], stage: Stage | None) -> None:
    if len(letters) != 1:
        raise Failed(f"{len(letters)} dead letters; expected one: the loss is silent")
    letter = letters[0]
    if letter["stage"] != stage or not 0 < len(letter["error"]) <= ERROR_CHARS:
        raise Failed(
            f"a letter of stage {letter['stage']} with {letter['error']!r:.200}; expected {stage} and a reason"
        )
