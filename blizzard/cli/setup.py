"""`blizzard setup`: gets what Spark needs."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.download import MAVEN_CENTRAL, REPOSITORY_VARIABLE, checked_repository
from blizzard.setup.jar_folder import JarFolder
from blizzard.setup.java import Java, find_java
from blizzard.setup.places import JARS_VARIABLE, cache_folder, log_store


@dataclass(frozen=True, slots=True)
class Result:
    folder: Path
    jars: int
    downloaded: int
    """The others were there already."""
    repository: str
    java: Java | None
    """None: `java_problem` says what to install."""
    java_problem: str | None


def command(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            help=f"Put the jars there; `blizzard run` then needs --jars or {JARS_VARIABLE}. Default: a cache folder.",
            metavar="FOLDER",
            file_okay=False,
        ),
    ] = None,
    repository: Annotated[
        str | None, typer.Option(help=f"Maven repository to download from. Default: {MAVEN_CENTRAL}.", metavar="URL")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False,
) -> None:
    """Get the jars of Delta and S3A that Spark needs, 25 MB, with pinned hashes. The local engine needs none.

    Exit code 0: they are there. 1: a jar cannot be downloaded, or has another hash. 2: the input is wrong.
    """
    environ = variables()
    wanted = folder or (Path(environ[JARS_VARIABLE]) if environ.get(JARS_VARIABLE) else cache_folder(environ))
    url = checked_repository(repository or environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL)
    result = set_up(wanted.absolute(), url, visible=sys.stderr.isatty() and not as_json)
    typer.echo(json.dumps(_as_json(result), indent=2) if as_json else "\n".join(_lines(result)))


def set_up(folder: Path, repository: str, *, visible: bool) -> Result:
    """`visible`: show the progress on the terminal."""
    jars = JarFolder(folder)
    try:
        with _progress(len(jars.jars), visible=visible) as arrived:
            downloaded = jars.fill(repository, log_store=log_store(), arrived=lambda _: arrived())
    except OSError as error:
        raise SetupError(f"{folder}: cannot write the jars: {error}; choose another folder with --folder") from error
    try:
        java, problem = find_java(), None
    except SetupError as error:
        java, problem = None, str(error)
    return Result(folder, len(jars.jars), downloaded, repository, java, problem)


@contextmanager
def _progress(total: int, *, visible: bool) -> Iterator[Callable[[], None]]:
    if not visible:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("jars of Delta and S3A"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _lines(result: Result) -> Iterator[str]:
    how = f"{result.downloaded} downloaded from {result.repository}" if result.downloaded else "all were there"
    yield f"{result.jars} jars in {result.folder}, {how}"
    if result.java is not None:
        yield f"Java {result.java.major} in {result.java.home}"
    else:
        yield f"Spark does not start yet: {result.java_problem}"


def _as_json(result: Result) -> dict[str, Any]:
    java = result.java
    return {
        "folder": str(result.folder),
        "jars": result.jars,
        "downloaded": result.downloaded,
        "repository": result.repository,
        "java": {"version": java.major, "home": str(java.home)} if java else None,
        "java_problem": result.java_problem,
    }
