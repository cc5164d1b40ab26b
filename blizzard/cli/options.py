"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from blizzard.setup.places import SETUP_COMMAND
from blizzard.state.dead_letters import Stage

File = Annotated[str, typer.Argument(help="The configuration, such as pipelines.yaml.", metavar="FILE")]
Pipelines = Annotated[
    list[str] | None,
    typer.Option("--pipeline", help="Only this pipeline; may be given more than once.", metavar="NAME"),
]
Sources = Annotated[
    list[str] | None, typer.Option("--source", help="Only this source; may be given more than once.", metavar="NAME")
]
Paths = Annotated[
    list[str] | None,
    typer.Option("--path", help="Only files that match this pattern; may be given more than once."),
]
Stages = Annotated[
    list[Stage] | None,
    typer.Option("--stage", help="Only what failed at this stage; may be given more than once."),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only letters whose error has this text.", metavar="TEXT")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only letters written since: a date, a time, or an age such as 12h."),
]
Until = Annotated[str | None, typer.Option("--until", help="Only letters written until then.")]
Jars = Annotated[
    Path | None,
    typer.Option("--jars", help=f"Folder of Delta's jars for Spark. Default: where `{SETUP_COMMAND}` puts them."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
