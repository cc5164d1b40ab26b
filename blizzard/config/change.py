"""Changes one value of a configuration file in place, and nothing else of it."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from blizzard.config.document import UnreadableError, place_of
from blizzard.config.load import load_config, parse_config
from blizzard.config.model import Config
from blizzard.errors import ConfigError


class CannotChange(ValueError):
    """Why the file cannot be changed."""


def with_table_uri(file: Path, environ: Mapping[str, str], pipeline: str, table_uri: str) -> str:
    """The text of the file with another `table_uri` of this pipeline. Raises CannotChange if it is not written there
    as it is, or if any other value would change, too. Raises ConfigError for a file that is none."""
    before = load_config(file, environ)
    text = file.read_bytes().decode()
    try:
        place = place_of(text, ("pipelines", pipeline, "table_uri"))
    except UnreadableError as error:
        raise CannotChange(error.text) from error
    if place is None:
        raise CannotChange("it is not written below the pipeline")
    start, end = place
    if "$" in text[start:end]:
        raise CannotChange(f"it has a variable, {text[start:end]}")
    changed = text[:start] + json.dumps(table_uri, ensure_ascii=False) + text[end:]
    try:
        after = parse_config(changed, environ, name=str(file), folder=str(file.absolute().parent))
    except ConfigError as error:
        raise CannotChange(str(error)) from error
    if _values(after) != _values(_replaced(before, pipeline, table_uri)):
        raise CannotChange("the same text is used in another place")
    return changed


def replace_file(file: Path, text: str) -> None:
    """Atomically, with the same permissions; a link still leads to the same place. Raises OSError."""
    target = file.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(target.stat().st_mode & 0o7777)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _replaced(config: Config, pipeline: str, table_uri: str) -> Config:
    changed = config.pipelines[pipeline].model_copy(update={"table_uri": table_uri})
    return config.model_copy(update={"pipelines": {**config.pipelines, pipeline: changed}})


def _values(config: Config) -> object:
    return config.model_dump()
