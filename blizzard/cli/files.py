"""`blizzard files`: was this file ingested, when, by which commit; and if not, why."""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated

import typer

from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.left_out import why_left_out
from blizzard.audit.lives import Life, Lives, literal_prefix
from blizzard.audit.question import Question
from blizzard.audit.rows_of_lives import with_rows
from blizzard.audit.source import AuditedSource, audited_source
from blizzard.audit.topic_ranges import OffsetsLife
from blizzard.cli.files_asked import UNKNOWN, Asked, State
from blizzard.cli.files_meant import hint, may_have, refuse_other_paths
from blizzard.cli.files_named import Named, is_plain
from blizzard.cli.files_text import show
from blizzard.cli.files_topics import topic_lives
from blizzard.cli.options import AsJson, File, Pipelines, Sources
from blizzard.cli.selection import given_paths, selected
from blizzard.cli.steps import Steps, steps
from blizzard.cli.times import optional_point_in_time
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
    since_ts = optional_point_in_time(since, "--since", now_ts)
    asked = Asked(_not_empty(globs or []), since_ts, frozenset(state or ()), limit)
    refuse_other_paths(asked.globs, chosen, settings)
    with steps(visible=not as_json) as progress:
        found = _all_found(chosen, asked, settings, now_ts, progress)
    nowhere = _nowhere(asked, {*found.paths, *(life.path for life in found.lives)}, chosen, found.failed)
    lives = [*found.lives, *(_absent(path, chosen, found.failed, settings) for path in nowhere)]
    _answer(lives, found.cut, limit, as_json=as_json)
    raise typer.Exit(1 if nowhere or found.failed else 0)


def _answer(lives: Sequence[Life | OffsetsLife], cut: Sequence[str], limit: int, *, as_json: bool) -> None:
    """`cut`: the sources that may have more files than are shown."""
    if as_json:
        typer.echo(json.dumps([asdict(life) for life in lives], indent=2))
    else:
        show(lives)
    for source_id in cut:
        what = f"only its first {limit:,} files are shown, and there may be more"
        typer.echo(f"{source_id}: {what}: --limit N shows more, --limit 0 all of them", err=as_json)


@dataclass(slots=True)
class _Found:
    """`paths`: that there are, though nothing of them may be shown: of the partitions of topics, and of files. `cut`:
    the sources that may have more files than are shown. `failed`: those that could not be looked at."""

    lives: list[Life | OffsetsLife] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    cut: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def _all_found(
    chosen: Sequence[tuple[Pipeline, Source]], asked: Asked, settings: S3Settings, now_ts: float, progress: Steps
) -> _Found:
    """Of each source, whatever becomes of the others. Raises ConfigError."""
    found = _Found()
    for pipeline, source in chosen:
        try:
            _add_found(found, pipeline, source, asked, settings, now_ts, progress)
        except ConfigError:
            raise
        except BlizzardError as error:
            life = Life if source.kafka is None else OffsetsLife
            found.lives.append(life(source.id, "", UNKNOWN, problem=str(error)))
            found.failed.append(source.id)
    return found


def _add_found(
    found: _Found,
    pipeline: Pipeline,
    source: Source,
    asked: Asked,
    settings: S3Settings,
    now_ts: float,
    progress: Steps,
) -> None:
    if source.kafka is None:
        files, named = _found(audited_source(pipeline, source, settings), asked, now_ts, progress)
        found.lives += files
        found.paths |= named.met
        found.cut += [source.id] * named.is_cut
    else:
        lives, known = topic_lives(pipeline, source, source.kafka, asked, settings)
        found.lives += lives
        found.paths |= known


def _found(source: AuditedSource, asked: Asked, now_ts: float, progress: Steps) -> tuple[list[Life], Named]:
    """Of one source. With what of it is named."""
    below = _below(asked.globs, source)
    named, wanted = Named(below), _patterns(below)
    if asked.globs and not wanted:
        return [], named
    paths, prefix = given_paths(wanted, "PATTERN"), literal_prefix(wanted)
    lives = Lives(source, prefix, paths.matches, now_ts, lambda count: progress(STEP, count, 0))
    question = Question(asked.since_ts, asked.states, None if f"{prefix}**" in wanted else paths.bytes_expression())
    finder = CommitFinder(source, lives.snapshot.checkpoint)
    wanted_lives = named.limited(lives.wanted(question), lambda life: _is_asked_for(life, asked), asked.limit)
    found = finder.complete(wanted_lives)
    named.look_up(lives.first_below)
    found = with_rows(source, lives.snapshot, found)
    for problem in finder.unreadable:
        typer.echo(one_line(f"{source.identity.source_id}: {problem}"), err=True)
    return found, named


def _below(globs: Sequence[str], source: AuditedSource) -> list[str]:
    """As paths of the source, "" for the source itself. Whole URIs of other places are left out, and
    what it cannot have."""
    uri = source.files.uri
    whole = [uri if f"{glob}/" == uri else glob for glob in globs]
    of_source = [glob.removeprefix(uri) for glob in whole if glob.startswith(uri) or "://" not in glob]
    return [path for path in of_source if may_have(uri, path)]


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
    return Life("", path, State.ABSENT, f"no source has it, and nothing knows it{hint(path, chosen, settings)}")


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
