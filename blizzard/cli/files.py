"""`blizzard files`: was this file ingested, when, by which commit; and if not, why."""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.left_out import why_left_out
from blizzard.audit.lives import EarlierCommit, Life, Lives, literal_prefix
from blizzard.audit.question import Question
from blizzard.audit.rows_of_lives import with_rows
from blizzard.audit.source import AuditedSource, audited_source
from blizzard.audit.topic_ranges import OffsetsLife
from blizzard.cli.files_asked import UNKNOWN, Asked, State
from blizzard.cli.files_named import Named, is_plain
from blizzard.cli.files_topics import offsets_facts, topic_lives
from blizzard.cli.options import AsJson, File, Pipelines, Sources
from blizzard.cli.selection import given_paths, selected
from blizzard.cli.steps import Steps, steps
from blizzard.cli.times import point_in_time, shown
from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import one_line
from blizzard.paths.pattern import literal
from blizzard.storage.s3_connection import S3Settings

LIMIT = 1_000
STEP = "looking at files"

OF_PATTERNS = (
    "Paths, folders (with / at the end) or patterns below the sources' URIs, or whole URIs; of topics: topic/partition."
)


def command(
    file: File,
    globs: Annotated[
        list[str] | None,
        typer.Argument(help=OF_PATTERNS, metavar="[PATTERN]..."),
    ] = None,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    since: Annotated[
        str | None, typer.Option(help="Only files that came since: a date, a time, or an age such as 12h.")
    ] = None,
    state: Annotated[
        list[State] | None, typer.Option(help="Only files in this state; may be given more than once.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(help="At most so many files of a source, and those that are named; 0: all.", metavar="N", min=0),
    ] = LIMIT,
    as_json: AsJson = False,
) -> None:
    """Show the life of files: announced by what, in which commit, with how many rows; or why it is not in. Of topics:
    which offsets each commit brought, and which wait. Only reads.

    Exit code 0: each of the files is there, or was. 1: a path that was given is nowhere, or a source cannot be looked
    at. 2: the input is wrong.
    """
    environ, now_ts = variables(), time.time()
    chosen, settings = selected(load_config(file, environ), pipeline, source), S3Settings.from_environment(environ)
    since_ts = point_in_time(since, "--since", now_ts) if since else None
    asked = Asked(_not_empty(globs or []), since_ts, frozenset(state or ()), limit)
    with steps(visible=not as_json) as show:
        found = _all_found(chosen, asked, settings, now_ts, show)
    nowhere = _nowhere(asked, {*found.quiet, *(life.path for life in found.lives)}, chosen, found.failed)
    lives = [*found.lives, *(_absent(path, chosen, found.failed, settings) for path in nowhere)]
    if as_json:
        typer.echo(json.dumps([asdict(life) for life in lives], indent=2))
    else:
        _print(lives)
    raise typer.Exit(1 if nowhere or found.failed else 0)


@dataclass(slots=True)
class _Found:
    """`quiet`: paths that there are, though nothing of them is shown: of the partitions of topics, and of files.
    `failed`: the sources that could not be looked at."""

    lives: list[Life | OffsetsLife] = field(default_factory=list)
    quiet: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)


def _all_found(
    chosen: Sequence[tuple[Pipeline, Source]], asked: Asked, settings: S3Settings, now_ts: float, show: Steps
) -> _Found:
    """Of each source, whatever becomes of the others. Raises ConfigError."""
    found = _Found()
    for pipeline, source in chosen:
        try:
            lives, known = _of_source(pipeline, source, asked, settings, now_ts, show)
        except ConfigError:
            raise
        except BlizzardError as error:
            life = Life if source.kafka is None else OffsetsLife
            found.lives.append(life(source.id, "", UNKNOWN, problem=str(error)))
            found.failed.append(source.id)
        else:
            found.lives += lives
            found.quiet |= known
    return found


def _of_source(
    pipeline: Pipeline, source: Source, asked: Asked, settings: S3Settings, now_ts: float, show: Steps
) -> tuple[Sequence[Life | OffsetsLife], set[str]]:
    if source.kafka is not None:
        return topic_lives(pipeline, source, source.kafka, asked, settings)
    return _found(audited_source(pipeline, source, settings), asked, now_ts, show)


def _found(source: AuditedSource, asked: Asked, now_ts: float, show: Steps) -> tuple[list[Life], set[str]]:
    """Of one source. With a path of each folder that is named and has files."""
    below = _below(asked.globs, source)
    named, wanted = Named(below), _patterns(below)
    if asked.globs and not wanted:
        return [], set()
    paths, prefix = given_paths(wanted, "PATTERN"), literal_prefix(wanted)
    lives = Lives(source, prefix, paths.matches, now_ts, lambda count: show(STEP, count, 0))
    question = Question(asked.since_ts, asked.states, None if f"{prefix}**" in wanted else paths.bytes_expression())
    finder = CommitFinder(source, lives.snapshot.checkpoint)
    wanted_lives = named.limited(lives.wanted(question), lambda life: _is_asked_for(life, asked), asked.limit)
    found = finder.complete(wanted_lives)
    named.look_up(lives.first_below)
    found = with_rows(source, lives.snapshot, found)
    for problem in finder.unreadable:
        typer.echo(one_line(f"{source.identity.source_id}: {problem}"), err=True)
    return found, named.met


def _below(globs: Sequence[str], source: AuditedSource) -> list[str]:
    """As paths of the source, "" for the source itself. Whole URIs of other places are left out."""
    uri = source.files.uri
    whole = [uri if f"{glob}/" == uri else glob for glob in globs]
    return [glob.removeprefix(uri) for glob in whole if glob.startswith(uri) or "://" not in glob]


def _patterns(paths: Sequence[str]) -> list[str]:
    """Of a folder, which ends in `/`, and of the source itself: of all files below."""
    folders = [path for path in paths if not path or path.endswith("/")]
    below = [f"{path}**" for folder in folders for path in dict.fromkeys((folder, literal(folder)))]
    return below + [path for path in paths if path not in folders]


def _is_asked_for(life: Life, asked: Asked) -> bool:
    came_ts = max(filter(None, (life.modified_ts, life.announced_ts)), default=None)
    is_recent = asked.since_ts is None or (came_ts is not None and came_ts >= asked.since_ts)
    return is_recent and (not asked.states or life.state in asked.states)


def _not_empty(globs: list[str]) -> list[str]:
    if "" in map(str.strip, globs):
        raise ConfigError(["PATTERN: expected a path or a pattern, found nothing. Without one all files are shown"])
    return globs


def _nowhere(
    asked: Asked, paths: Collection[str], chosen: Sequence[tuple[Pipeline, Source]], failed: Collection[str]
) -> list[str]:
    """The paths, not the patterns, of which there is no file, and no partition, in whatever state. Raises ConfigError
    for a text that is no pattern, and nothing that there is, unless a source has `failed`, which may have it."""
    places = [f"{each.uri.rstrip('/')}/" for _, each in chosen if each.kafka is None]
    plain = [glob for glob in asked.globs if is_plain(glob) and f"{glob.rstrip('/')}/" not in places]
    nowhere = [glob for glob in plain if not any(_is_meant(path, glob, places) for path in paths)]
    patterns = given_paths(
        [glob for glob in asked.globs if glob not in plain], "PATTERN", partial(_as_pattern, places=places)
    )
    patterns.check(lambda glob: bool(failed) or any(_is_meant(path, glob, places) for path in paths))
    return nowhere


def _absent(
    path: str, chosen: Sequence[tuple[Pipeline, Source]], failed: Collection[str], settings: S3Settings
) -> Life:
    """A path that no source has that could be looked at."""
    for pipeline, source in chosen:
        if source.kafka is None and source.id not in failed:
            audited = audited_source(pipeline, source, settings)
            for below in _below([path], audited):
                if (why := why_left_out(audited, below)) is not None:
                    return Life("", path, State.ABSENT, f"source {source.id} does not list it: {why}")
    if failed:
        return Life("", path, UNKNOWN, f"no other source has it; {', '.join(failed)} was not looked at")
    return Life("", path, State.ABSENT, "no source has it, and nothing knows it")


def _as_pattern(glob: str, places: Collection[str]) -> str:
    """As `_found` uses it: below its source, and of a folder all files. Topics have no folders."""
    whole = f"{glob}/" if f"{glob}/" in places else glob
    place = max((each for each in places if whole.startswith(each)), key=len, default="")
    below = whole.removeprefix(place) if place else glob.partition("://")[2].lstrip("/") or glob
    return f"{below}**" if places and (not below or below.endswith("/")) else below


def _is_meant(path: str, glob: str, places: Collection[str]) -> bool:
    """`places`: the sources' URIs."""
    if not glob.endswith("/"):
        return glob == path or glob.endswith(f"/{path}")
    return path.startswith(glob) or any(f"{place}{path}".startswith(glob) for place in places)


def _print(lives: Sequence[Life | OffsetsLife]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for life in lives:
        console.print(
            one_line(f"{life.source or 'nowhere'}: {life.path or 'was not looked at'}"), style="bold", markup=False
        )
        facts = facts_of(life) if isinstance(life, Life) else offsets_facts(life)
        for name, value in facts if life.problem is None else [("state", life.state), ("problem", life.problem)]:
            console.print(one_line(f" {name:<14} {value}"), markup=False)
    if not lives:
        console.print("no such files")


_ANNOUNCED_BY = {"event": "an event", "sweep": "a sweep", "late": "a late sweep", "repair": "an operator"}


def facts_of(life: Life) -> Iterator[tuple[str, str]]:
    yield "state", life.state.replace("_", " ")
    if life.reason is not None:
        yield "why", life.reason
    if life.listed:
        yield "object", f"etag {life.etag}, {life.size or 0:,} bytes, modified {shown(life.modified_ts)}"
    if life.announced_by is not None or life.announced_ts is not None:
        by = _ANNOUNCED_BY.get(life.announced_by or "", "unknown")
        yield "announced by", f"{by}{f', of {shown(life.announced_ts)}' if life.announced_ts is not None else ''}"
    if life.sequence is not None:
        version = "unknown" if life.table_version is None else f"{life.table_version:,}"
        yield "commit", f"{life.sequence:,} (table version {version}), {shown(life.committed_ts)}"
        in_table = "" if life.rows_found in (None, life.rows) else f"; {life.rows_found:,} in the table"
        yield "rows", f"{life.rows or 0:,}, and {life.rejected or 0:,} records refused{in_table}"
        if life.etag_committed != life.etag:
            yield "content", f"etag {life.etag_committed} was committed"
    if life.latency_secs is not None:
        yield "latency", f"{life.latency_secs:,.1f} s from its announcement to the commit"
    for commit in life.earlier:
        yield "before that", _earlier(commit)


def _earlier(commit: EarlierCommit) -> str:
    version = "unknown" if commit.table_version is None else f"{commit.table_version:,}"
    facts = [f"commit {commit.sequence:,} (table version {version}), {shown(commit.committed_ts)}"]
    if commit.announced_by is not None:
        facts.append(f"announced by {_ANNOUNCED_BY.get(commit.announced_by, 'unknown')}")
    if commit.error is not None:
        facts.append(f"refused: {commit.error}")
    elif commit.rows is not None:
        facts.append(f"{commit.rows:,} rows, and {commit.rejected or 0:,} records refused")
    if commit.latency_secs is not None:
        facts.append(f"{commit.latency_secs:,.1f} s after its announcement")
    return "; ".join(facts)
