"""`blizzard audit` of the tables of a round, and of a copy of one from which somebody has taken a message."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from infra.local.processes.checkout import CHECKOUT
from tests.proof.campaign import Failed
from tests.proof.kafka.world import Place, Read

AUDITED = "audits of a source that found nothing wrong"
UNANSWERED_AUDITS = "audits in the middle of a round that brokers or states did not answer"
ROW_GONE, LETTER_GONE = "rows that were taken out and audits missed", "letters that were taken out and audits missed"
GOOD = "good"
NOTES_OF_LOST_STATES = frozenset({"start_unknown", "rows_uncounted"})
"""What an audit may say of a source whose state was lost, and was rebuilt: the receipts of before are found by their
names only, so that of messages that retention took nobody knows how many rows there were."""


def audit(config: Path, variant: str = "") -> list[dict[str, Any]]:
    """The answer about each source. Raises Failed if there is none."""
    words = [sys.executable, "-m", "tests.proof.kafka.command", variant or "-", "audit", "--json", str(config)]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Failed(f"audit: no answer, exit code {done.returncode}: {done.stderr[-1000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check_good(reports: Sequence[Mapping[str, Any]], steps: Sequence[str], *, states_lost: bool) -> None:
    """`states_lost`: those of all sources, at some time. Raises Failed."""
    for report in reports:
        kinds = {notice["kind"] for notice in report.get("notices", ())}
        allowed = NOTES_OF_LOST_STATES if states_lost else frozenset[str]()
        if report["problem"] is not None or not (report["verdict"] == GOOD or (kinds and kinds <= allowed)):
            raise Failed(f"audit: not good: {_short(report)}", steps)


def check_not_bad(reports: Sequence[Mapping[str, Any]], steps: Sequence[str]) -> int:
    """In the middle of a round. Returns how many sources have an answer. Raises Failed."""
    for report in reports:
        if report["problem"] is None and report["verdict"] == "bad":
            raise Failed(f"audit: bad in the middle of a round: {_short(report)}", steps)
    return sum(report["problem"] is None for report in reports)


def check_missed(report: Mapping[str, Any], place: Place, steps: Sequence[str]) -> None:
    """Of a copy that lacks this message alone. Raises Failed."""
    path, offset = f"{place[0]}/{place[1]}", place[2]
    named = [(one["path"], one["first"], one["last"]) for one in (report.get("found") or {}).get("missing", ())]
    if report["problem"] is not None or report["verdict"] != "bad" or named != [(path, offset, offset)]:
        raise Failed(f"audit: {place} was taken out, and not missed: {_short(report)}", steps)


def _short(report: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in report.items() if name != "partitions" and value not in (None, 0, [], {})}
    return f"{shown!s:.1500}"


def planted(
    table: Path, read: Read, now: Collection[Place], topic: str, rng: random.Random
) -> Iterator[tuple[str, Place, Path]]:
    """What is counted, the message that was taken out, and a copy of the table that lacks it, which is there until the
    next one. `read`: what the table has; `now`: what the brokers have."""
    takes = {ROW_GONE: (take_row_out, read.rows), LETTER_GONE: (take_letter_out, read.letters)}
    for count, (take_out, places) in takes.items():
        if (place := a_place(places, now, topic, rng)) is not None:
            copy = table.with_name("copy")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(table, copy)
            take_out(copy, place)
            yield count, place, copy


def a_place(of: Collection[Place], now: Collection[Place], topic: str, rng: random.Random) -> Place | None:
    """One of these messages of the topic which the brokers still have, and which is not the first of its partition: an
    audit of a rebuilt state begins with that."""
    firsts: dict[tuple[str, int], int] = {}
    for name, number, offset in of:
        firsts[name, number] = min(offset, firsts.get((name, number), offset))
    found = sorted(place for place in {*of} & {*now} if place[0] == topic and place[2] > firsts[place[0], place[1]])
    return rng.choice(found) if found else None


def take_row_out(table: Path, place: Place) -> None:
    topic, number, offset = place
    DeltaTable(table).delete(f"_source.file = '{topic}/{number}' AND _source.row = {offset}")


def take_letter_out(table: Path, place: Place) -> None:
    """Those of all attempts."""
    path, offset = f"{place[0]}/{place[1]}", place[2]
    for file in table.glob("_blizzard/*/dead_letters/*/records-*.ndjson"):
        lines = file.read_text().splitlines(keepends=True)
        kept = [line for line in lines if ((letter := json.loads(line))["path"], letter["row"]) != (path, offset)]
        if not kept:
            file.unlink()
        elif len(kept) < len(lines):
            file.write_text("".join(kept))
