"""A list of hostile configurations."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw
        schema: id STRING NOT NULL, n BIGINT
        pattern: "**/*.ndjson.gz"
        partition_columns: {date: date}
        partition_filter: {prefix_template: date=%Y-%m-%d, lookback: 3}
        checkpoint: {interval_files: 100, interval_bytes: 1GiB}
        limits: {max_record_bytes: 1MiB}
"""

OBJECTS: Mapping[str, Callable[[Path], str]] = {
    "a call": lambda file: f'!!python/object/apply:os.mkdir ["{file}"]',
    "a new object": lambda file: f'!!python/object/new:os.mkdir ["{file}"]',
    "an argument list": lambda file: (
        f'!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ["{file}"]]'
    ),
    "a name": lambda file: "!!python/name:os.system",
    "a module": lambda file: "!!python/module:os",
}
"""Configurations that would create `file` if their loader built objects."""


def configurations() -> Iterator[tuple[str, str]]:
    """All of them must be refused."""
    yield from _no_yaml_or_no_mapping()
    yield from _names_and_places()
    yield from _values()


def _no_yaml_or_no_mapping() -> Iterator[tuple[str, str]]:
    yield "nothing", ""
    yield "a word", "x"
    yield "a list", "[]"
    yield "tabs", CONFIG.replace("  ", "\t")
    yield "NUL", CONFIG + "\0"
    yield "control characters", CONFIG + "# \x1b[2J\n"
    yield "a lone surrogate", CONFIG + "# \ud800\n"
    yield "an escaped surrogate", CONFIG.replace("pipelines", '"\\ud800"')
    yield "a megabyte too many", "#" * (1 << 20) + "x\n" + CONFIG
    yield "100000 openers", "[" * 100_000
    yield "100000 levels", "- " * 100_000
    yield "100 levels", "a: " + "{a: " * 100 + "1" + "}" * 100
    yield "300000 values", f"pipelines: [{'1,' * 300_000}]"
    letters = "abcdefghi"
    bomb = "".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise(letters))
    yield "a billion of aliases", f"a: &a [{', '.join('x' * 9)}]\n{bomb}"
    yield "an alias of itself", "pipelines: &a [*a]"
    yield "an alias of nothing", "pipelines: *a"
    yield "a merge", f"x: &x {{a: 1}}\n<<: *x\n{CONFIG}"
    yield "a merge of a pipeline", "pipelines: {<<: {a: 1}}"
    yield "a key that is there twice", CONFIG + "pipelines: {}\n"
    yield "a key that is a list", CONFIG + "? [a]\n: b\n"
    yield "two documents", CONFIG + "---\n" + CONFIG
    yield "a directive", "%YAML 9.9\n---\n" + CONFIG
    yield "an anchor alone", "&a"


def _names_and_places() -> Iterator[tuple[str, str]]:
    yield "a pipeline's name with a blank", CONFIG.replace("events:", '"e v":')
    yield "a pipeline's name with a blank and nothing in it", 'pipelines: {"e v": {table_uri: s3://lake/events}}'
    yield "a pipeline's name with an end of line", CONFIG.replace("  events:", '  "events\\n":')
    yield "a pipeline's name that forges", 'pipelines: {"a\\e[31m\\nvalid": {table_uri: "s3://x/\\e[2J\\nvalid"}}'
    yield "a pipeline's name of a climber", CONFIG.replace("events:", '"../../outside":', 1)
    yield "a source's name of a climber", CONFIG.replace("landing:", '"..":', 1)
    yield "a place of a climber", CONFIG.replace("s3://lake/events", "s3://lake/../events")
    yield "a place that is everything", CONFIG.replace("s3://lake/events", "file:///")
    yield "a place with a password", CONFIG.replace("s3://landing/raw", "s3://user:secret@landing/raw")
    yield "a place of another kind", CONFIG.replace("s3://landing/raw", "ftp://user:secret@landing/raw")
    yield "a table in its source", CONFIG.replace("s3://lake/events", "s3://landing/raw/table")
    yield "a pattern of a climber", CONFIG.replace('"**/*.ndjson.gz"', '"../*"')
    yield "a pattern of a million", CONFIG.replace('"**/*.ndjson.gz"', '"' + "{a,b}" * 20 + '"')


def _values() -> Iterator[tuple[str, str]]:
    yield "a variable that is not set", CONFIG.replace("s3://lake", "${LAKE}")
    yield "a variable in a variable", CONFIG.replace("s3://lake", "${LAKE:-${HOME}}")
    yield "a variable of two lines", CONFIG.replace('"**/*.ndjson.gz"', '"${\\n}"')
    yield "a variable without end", CONFIG.replace("s3://lake", "${LAKE")
    yield "a template of another language", CONFIG.replace("s3://lake", "${LAKE.__class__}")
    yield "a schema that is SQL", CONFIG.replace("id STRING NOT NULL", "id STRING); DROP TABLE x; --")
    yield "a schema of 20000 levels", CONFIG.replace("n BIGINT", "n " + "ARRAY<" * 20_000)
    for number in (
        "-1",
        "0",
        "1.5",
        ".nan",
        ".inf",
        "1e400",
        "true",
        "0x" + "f" * 5_000,
        "0o" + "7" * 5_000,
        "9" * 5_000,
    ):
        yield f"a count of {number[:8]}", CONFIG.replace("interval_files: 100", f"interval_files: {number}")
        yield f"a size of {number[:8]}", CONFIG.replace("1GiB", number)
    yield "a template with what is no time", CONFIG.replace("date=%Y-%m-%d", "%(os)s")
