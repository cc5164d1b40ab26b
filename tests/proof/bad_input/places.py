"""Checks of where a batch wrote, and of its log."""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from blizzard.errors import BlizzardError
from tests.proof.campaign import Failed

_IN_THE_TABLE = re.compile(
    r"((kind=[^/]+|_blizzard/staging/batch)/)?part-[0-9]+\.snappy\.parquet"
    r"|_blizzard/events_landing/dead_letters/[A-Za-z0-9._=-]+/(file|records-[0-9]{12})\.ndjson"
)


def tree(folder: Path) -> dict[str, str]:
    """Every file and folder below, with mode and digest, so that each change is visible."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        digest = sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else "-"
        found[str(path.relative_to(folder))] = f"{state.st_mode:o} {digest}"
    return found


def check_places(folder: Path, before: Mapping[str, str], table: str = "table") -> None:
    """Raises Failed unless, below `folder`, only the table has changed, and only in what a batch writes."""
    after = tree(folder)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    outside = sorted(path for path in changed if path != table and not path.startswith(f"{table}/"))
    if outside:
        raise Failed(f"written outside of the table: {outside[:5]!a}")
    written = (path.removeprefix(f"{table}/") for path in changed if not after.get(path, "").endswith(" -"))
    if strange := sorted(path for path in written if path != table and not _IN_THE_TABLE.fullmatch(path)):
        raise Failed(f"in the table's folder, and nothing that a batch writes: {strange[:5]!a}")


def check_log(lines: Sequence[str], events: Sequence[str]) -> None:
    """Raises Failed unless each event is one line of JSON in plain ASCII without control characters."""
    *whole, rest = lines
    if rest or len(whole) != len(events):
        raise Failed(
            f"the log has {len(whole)} lines; expected {len(events)}", [f"line {line!a:.200}" for line in whole[:3]]
        )
    for line, event in zip(whole, events, strict=True):
        if not (line.isascii() and line.isprintable()):
            raise Failed(f"the log's line {line!a:.200} has control characters")
        try:
            document = json.loads(line)
        except ValueError as error:
            raise Failed(f"the log's line {line!a:.200} is not JSON: {error}") from None
        if document["event"] != event:
            raise Failed(f"the log says {document['event']!a:.100}; expected {event}")


def check_events(log: Callable[..., object], said: io.StringIO, texts: list[str]) -> None:
    """Each event with hostile fields is one line."""
    for text in texts:
        log("object_skipped", key=text, reason=text)
        log("source_failed", error=BlizzardError(text), source=text)
    check_log(said.getvalue().split("\n"), ["object_skipped", "source_failed"] * len(texts))
