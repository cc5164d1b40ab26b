"""Arguments and options that several commands have."""

from typing import Annotated

import typer

File = Annotated[str, typer.Argument(help="The configuration, such as pipelines.yaml.", metavar="FILE")]
Pipelines = Annotated[
    list[str] | None,
    typer.Option("--pipeline", help="Only this pipeline; may be given more than once.", metavar="NAME"),
]
Sources = Annotated[
    list[str] | None, typer.Option("--source", help="Only this source; may be given more than once.", metavar="NAME")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
