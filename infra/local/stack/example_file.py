"""An example file for a source of a running stack: its name, its key, and the command that makes it."""

import re
import shlex
import time
from dataclasses import dataclass

from blizzard.config.compressions import compression_of
from blizzard.config.ddl import Atomic, Column, parse
from blizzard.config.formats import FILE_FORMATS
from blizzard.config.model import Config, Source
from blizzard.paths.partition import TimeTemplate
from blizzard.paths.pattern import Pattern

_SUFFIX = re.compile(r"(?:\*\*/)?\*((?:\.[A-Za-z0-9_-]+)*)")
_COMPRESS_COMMANDS = {"none": "", **{name: f" | {name}" for name in ("gzip", "zstd", "bzip2", "xz", "lz4")}}
"""Not all compressions have a program that is found everywhere."""
_VALUES: dict[str, object] = {"string": "first", "boolean": True, "double": 1.0, "float": 1.0}
_INTEGERS = {"tinyint", "smallint", "int", "bigint"}


@dataclass(frozen=True, slots=True)
class ExampleFile:
    key: str
    """In the landing bucket."""
    name: str
    """Of the file on disk; `FILE` if no name can be derived from the pattern."""
    command: str
    """Makes the file in the current folder."""


def example_file(source: Source, now_ts: float) -> ExampleFile:
    """Of a source whose uri is on S3."""
    folder = _prefix(source) + _folder(source, now_ts)
    suffix, line = _suffix(source), _line(source)
    matches = suffix is not None and Pattern(source.pattern).matches(f"{_folder(source, now_ts)}first{suffix}")
    name = f"first{suffix}"
    compress = _COMPRESS_COMMANDS.get(compression_of(name, source.compression))
    if not matches or line is None or compress is None:
        return ExampleFile(f"{folder}FILE", "FILE", f"FILE: a file that matches {source.pattern}")
    return ExampleFile(folder + name, name, f"echo {shlex.quote(line)}{compress} > {name}")


def key_for(config: Config, name: str, now_ts: float) -> str | None:
    """The key for a file of this name, in the first source whose pattern matches. None: no source's pattern matches."""
    for _, source in config.file_sources():
        folder = _folder(source, now_ts)
        if Pattern(source.pattern).matches(folder + name):
            return _prefix(source) + folder + name
    return None


def _prefix(source: Source) -> str:
    return source.uri.removeprefix("s3://").partition("/")[2]


def _folder(source: Source, now_ts: float) -> str:
    """The folder for files of now, with a `/` at the end; empty if the source has no partition folders."""
    partition_filter = source.partition_filter
    folders = (
        TimeTemplate(partition_filter.prefix_template).oldest_folder(now_ts, 1).split("/") if partition_filter else []
    )
    for column, kind in source.partition_columns.items():
        if not any(folder.startswith(f"{column}=") for folder in folders):
            today = time.strftime("%Y-%m-%d", time.gmtime(now_ts))
            folders.append(f"{column}={today if kind == 'date' else 'first' if kind == 'string' else 1}")
    return "".join(f"{folder}/" for folder in folders)


def _suffix(source: Source) -> str | None:
    if source.pattern == "**":
        return FILE_FORMATS[source.format].extension
    match = _SUFFIX.fullmatch(source.pattern)
    return None if match is None else match[1] or FILE_FORMATS[source.format].extension


def _line(source: Source) -> str | None:
    """None: no line of text is a file of this format."""
    columns = parse(source.record_ddl or "id BIGINT").columns  # of an inferred schema any record is one
    needed = [column for column in columns if not column.nullable] or list(columns[:1])
    example = FILE_FORMATS[source.format].example
    return None if example is None else example({column.name: _value(column) for column in needed})


def _value(column: Column) -> object:
    kind = column.type.name if isinstance(column.type, Atomic) else ""
    return 1 if kind in _INTEGERS else _VALUES.get(kind)
