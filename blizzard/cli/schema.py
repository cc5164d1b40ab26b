"""`blizzard schema`: the JSON Schema of the configuration."""

import json

import typer

from blizzard.config.json_schema import json_schema


def command() -> None:
    """Print the JSON Schema of the configuration, for editors.

    Save it next to pipelines.yaml and start that file with: # yaml-language-server: $schema=pipelines.schema.json
    """
    typer.echo(json.dumps(json_schema(), indent=2))
