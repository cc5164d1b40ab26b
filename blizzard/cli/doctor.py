"""`blizzard doctor`: what is wrong, and what to do about it."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blizzard.cli.options import File
from blizzard.doctor.check import Result, Verdict
from blizzard.doctor.doctor import Examination
from blizzard.doctor.examine import OnCheck
from blizzard.doctor.report import Report
from blizzard.environment import variables
from blizzard.log import one_line

STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.PROBLEM: "bold red", Verdict.SKIPPED: "dim"}


def command(
    file: File,
    *,
    stack: Annotated[
        str | None, typer.Option(help="Also look at this deployed stack, in the region of AWS_REGION.", metavar="NAME")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False,
) -> None:
    """Look at the configuration, its storage, tables and state, and at a stack. Only reads.

    Exit code 0: all is well, or there are only warnings. 1: there is a problem. 2: the configuration is wrong.
    """
    with _progress() as on_check:
        examination = Examination(file, variables(), time.time, stack=stack, on_check=on_check)
        report = Report(file, stack, time.time(), [*examination.results()])
    if as_json:
        typer.echo(json.dumps(report.as_document(), indent=2))
    elif sys.stdout.isatty():
        _print(report)
    else:
        typer.echo("\n".join(report.lines()))
    raise typer.Exit(2 if report.is_configuration_wrong else int(report.verdict is Verdict.PROBLEM))


@contextmanager
def _progress() -> Iterator[OnCheck]:
    """On a terminal, a line that shows the current check."""
    if not sys.stderr.isatty():
        yield lambda check_id, subject: None
        return
    with Console(stderr=True).status("reading the configuration") as status:
        yield lambda check_id, subject: status.update(Text(one_line(f"{check_id} of {subject}")))


def _print(report: Report) -> None:
    console = Console(highlight=False)
    for title, results in report.areas():
        table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None)
        for result in results:
            table.add_row(*_cells(result))
        console.print(table)
        console.print()
    console.print(Text(report.summary(), style=STYLES[report.verdict]))


def _cells(result: Result) -> Iterator[Text]:
    finding = result.finding
    said = [f"{result.subject}: {finding.found}"]
    said += [f"expected: {finding.expected}"] if finding.expected else []
    said += [f"do: {finding.advice}"] if finding.advice else []
    yield Text(finding.verdict, style=STYLES[finding.verdict])
    yield Text(result.id)
    yield Text("\n".join(map(one_line, said)), style="dim" if finding.verdict is Verdict.SKIPPED else "")
