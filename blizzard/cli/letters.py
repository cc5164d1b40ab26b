"""`blizzard letters`: what was not ingested, and why."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console

from blizzard.cli.letter_groups import LetterGroup, LetterGroups
from blizzard.cli.options import AsJson, File, Paths, Pipelines, Reason, Since, Sources, Stages, Until
from blizzard.cli.selection import given_paths, is_file_of, refuse_empty, selected
from blizzard.cli.steps import Steps, steps
from blizzard.cli.times import point_in_time, shown
from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.log import one_line
from blizzard.state.settled_letters import letters_with_settlements
from blizzard.state.stored_letters import LetterFilter
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

LIMIT = 20
RAW_CHARACTERS = 200
STEP = "reading letters"


@dataclass(slots=True)
class Letters:
    """The letters of a source. `files`, `records`: versions of files with letters, and refused records, of those that
    were asked for. `settled`: letters of what is in the table by now, which do not count otherwise. `letters`: as
    stored, as many as were wanted, and `omitted`: how many more there are; `unreadable`: what is wrong with stored
    ones."""

    source: str
    files: int = 0
    records: int = 0
    settled: int = 0
    groups: list[LetterGroup] = field(default_factory=list)
    letters: list[Mapping[str, Any]] = field(default_factory=list)
    omitted: int = 0
    unreadable: list[str] = field(default_factory=list)

    def as_document(self, *, details: bool) -> dict[str, Any]:
        return {
            "source": self.source,
            "files": self.files,
            "records": self.records,
            "settled": self.settled,
            "groups": [group.as_document() for group in self.groups],
            "letters": self.letters if details else None,
            "omitted": self.omitted,
            "unreadable": self.unreadable,
        }


def command(
    file: File,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    path: Paths = None,
    stage: Stages = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    raw: Annotated[
        str | None, typer.Option("--raw", help="Only letters whose raw record has this text.", metavar="TEXT")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Show the letters, too, with the raw records.")] = False,
    with_settled: Annotated[
        bool, typer.Option("--settled", help="Count and show settled letters, too: what is in the table by now.")
    ] = False,
    limit: Annotated[
        int, typer.Option(help="With --details: at most so many letters of a source; 0: all.", metavar="N", min=0)
    ] = LIMIT,
    as_json: AsJson = False,
) -> None:
    """Show the open dead letters, grouped by reason: files and records that were not ingested. Only reads.

    Exit code 0: they can be read, however many there are. 1: some cannot. 2: the input is wrong.
    """
    environ, now_ts = variables(), time.time()
    chosen = selected(load_config(file, environ), pipeline, source)
    refuse_empty({"--reason": reason, "--raw": raw})
    since_ts = 0.0 if since is None else point_in_time(since, "--since", now_ts)
    until_ts = math.inf if until is None else point_in_time(until, "--until", now_ts)
    paths = given_paths(path, "--path")
    wanted = LetterFilter(paths.matches, frozenset(map(str, stage or ())), reason, since_ts, until_ts, raw)
    most = (limit or math.inf) if details else 0
    settings = S3Settings.from_environment(environ)
    with steps(visible=not as_json) as show:
        found = [letters_of(*each, settings, wanted, most, show, with_settled=with_settled) for each in chosen]
    paths.check(lambda text: is_file_of(chosen, settings, text))
    _show(found, details=details, as_json=as_json)
    raise typer.Exit(1 if any(letters.unreadable for letters in found) else 0)


def letters_of(
    pipeline: Pipeline,
    source: Source,
    settings: S3Settings,
    wanted: LetterFilter,
    most: float,
    show: Steps,
    *,
    with_settled: bool = False,
) -> Letters:
    """`most`: how many letters to keep. Settled ones then have `settled`, with the commit that settled them."""
    store = open_store(pipeline.table_uri, settings, may_be_missing=True)
    found, groups, versions = Letters(source.id), LetterGroups(), set[int]()
    stored = letters_with_settlements(store, source.state_prefix, source.id, found.unreadable, since_ts=wanted.since_ts)
    for number, (letter, settlement) in enumerate(stored, 1):
        if number % 100 == 0:
            show(STEP, number, 0)
        if not wanted.wants(letter):
            continue
        if settlement is not None:
            found.settled += 1
            if not with_settled:
                continue
            letter["settled"] = settlement.as_document()
        groups.add(letter)
        versions.add(hash((letter.get("path"), letter.get("etag"))))
        found.records += "row" in letter
        if len(found.letters) < most:
            found.letters.append(letter)
        elif most:
            found.omitted += 1
    found.files, found.groups = len(versions), groups.largest_first()
    return found


def _show(found: Sequence[Letters], *, details: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([letters.as_document(details=details) for letters in found], indent=2))
        return
    for letters in found:
        _print(letters)


def _print(letters: Letters) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(letters.source, style="bold", markup=False)
    for line in _lines(letters):
        console.print(one_line(line), markup=False)


def _lines(letters: Letters) -> list[str]:
    settled = f"; {letters.settled:,} letters are settled" if letters.settled else ""
    lines = [f" {letters.files:,} files with dead letters, {letters.records:,} refused records{settled}"]
    for group in letters.groups:
        count = f"{group.records:,} records of {group.files:,} files" if group.records else f"{group.files:,} files"
        lines.append(f" {count}, {group.stage}: {group.reason}")
        times = f"first {shown(group.first_ts)}, last {shown(group.last_ts)}"
        lines.append(f"   {times}, such as {group.path}: {group.error}")
    for letter in letters.letters:
        lines += _letter(letter)
    if letters.omitted:
        more = "--limit N shows more, --limit 0 all of them"
        lines.append(f" {letters.omitted:,} more letters are not shown: {more}")
    return lines + [f" cannot be read: {each}" for each in letters.unreadable]


def _settled(settlement: Mapping[str, Any]) -> str:
    version = settlement["table_version"]
    return f"{shown(settlement['settled_ts'])}" + ("" if version is None else f", in version {version} of the table")


def _letter(letter: Mapping[str, Any]) -> list[str]:
    place = letter.get("path", "") if "row" not in letter else f"{letter.get('path', '')}, record {letter['row']}"
    lines = [f" {letter.get('timestamp')} {place} ({letter.get('stage')}): {letter.get('error')}"]
    known = ("source", "path", "row", "stage", "error", "timestamp", "raw", "raw_base64", "settled")
    more = [f"{name} {value}" for name, value in letter.items() if name not in known]
    if "settled" in letter:
        lines.append(f"   settled {_settled(letter['settled'])}")
    if more:
        lines.append(f"   {', '.join(more)}")
    raw = letter.get("raw", letter.get("raw_base64"))
    if raw is not None:
        text = str(raw)
        cut = f"… ({len(text):,} characters)" if len(text) > RAW_CHARACTERS else ""
        lines.append(f"   {'raw' if 'raw' in letter else 'raw, in base64'}: {text[:RAW_CHARACTERS]}{cut}")
    return lines
