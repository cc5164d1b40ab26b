"""Reads a configuration for a stack, which has a few landing buckets and one lake bucket."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path as FilePath

from blizzard.config.document import read_document
from blizzard.config.load import read_config
from blizzard.config.model import Config
from blizzard.config.problems import Path, Problem, Problems
from blizzard.errors import ConfigError

_PLAIN = re.compile(r"[A-Za-z0-9!_.()=-]{1,120}")
_FILES = ("certificate_location", "key_location")
_INSTEAD = "log in with the mechanism AWS_MSK_IAM, or with a user and `secret`"
OWN_LANDING = "-landing"
"""Behind the lake's name, of a configuration that reads topics only: a stack has a landing bucket all the same."""
MAX_LANDINGS = 4
"""The template has parameters for so many."""


@dataclass(frozen=True, slots=True)
class Landing:
    bucket: str
    prefix: str = ""
    """The common folder of the bucket's sources, with a `/` at the end; empty for the whole bucket."""


@dataclass(frozen=True, slots=True)
class Buckets:
    landings: tuple[Landing, ...]
    """Up to MAX_LANDINGS, in the order of the configuration. The template can create the first one."""
    lake: str
    lake_prefix: str = ""

    def parameters(self) -> dict[str, str]:
        """Of the template; those that no bucket needs are empty."""
        numbered = zip(("", *map(str, range(2, MAX_LANDINGS + 1))), self._padded(), strict=True)
        landings = {
            f"{name}{number}": value
            for number, landing in numbered
            for name, value in (("LandingBucketName", landing.bucket), ("LandingPrefix", landing.prefix))
        }
        return {**landings, "LakeBucketName": self.lake, "LakePrefix": self.lake_prefix}

    def _padded(self) -> tuple[Landing, ...]:
        return (*self.landings, *(Landing("") for _ in range(MAX_LANDINGS - len(self.landings))))


@dataclass(frozen=True, slots=True)
class StackConfig:
    config: Config
    buckets: Buckets


@dataclass(frozen=True, slots=True)
class _Location:
    path: Path
    uri: str

    @property
    def is_s3(self) -> bool:
        return self.uri.startswith("s3://")

    @property
    def bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def key(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[2]


def read_stack_config_file(config: FilePath, environ: Mapping[str, str]) -> StackConfig:
    """As read_stack_config, from a file. Relative paths in it start at its folder."""
    try:
        text = config.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; expected the path of a configuration file"
        raise ConfigError([f"{config}: {reason}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{config}: found a byte that is not UTF-8; save the file as UTF-8"]) from error
    return read_stack_config(text, environ, name=str(config), folder=str(config.absolute().parent))


def read_stack_config(text: str, environ: Mapping[str, str], *, name: str, folder: str) -> StackConfig:
    """As read_config. Raises ConfigError with all problems, including those of a stack only."""
    reading = read_config(text, environ, name=name, folder=folder)
    if reading.config is None:
        raise _errors(reading.problems)
    config, problems = reading.config, Problems(name, read_document(text, name).lines)
    tables = [_Location(("pipelines", p.name, "table_uri"), p.table_uri) for p in config.pipelines.values()]
    sources = [_Location(("pipelines", p.name, "sources", s.name, "uri"), s.uri) for p, s in config.file_sources()]
    _no_files_of_the_machine(config, problems)
    for location in (*tables, *sources):
        if not location.is_s3:
            problems.add(
                location.path, f"found {location.uri}; expected s3://bucket/…: a stack cannot read local disks"
            )
    _few_buckets(sources, problems)
    _one_lake(tables, problems)
    _check_lake_is_not_landing(sources, tables, problems)
    if found := problems.sorted():
        raise _errors(found)
    landings = (
        Landing(bucket, _common_folder(location.key for location in sources if location.bucket == bucket))
        for bucket in dict.fromkeys(location.bucket for location in sources)
    )
    lake_prefix = _common_folder(f"{table.key.rstrip('/')}/" for table in tables)
    lake = tables[0].bucket
    return StackConfig(config, Buckets(tuple(landings) or (_own_landing(lake),), lake, lake_prefix))


def _own_landing(lake: str) -> Landing:
    return Landing(lake[: 63 - len(OWN_LANDING)].rstrip(".-") + OWN_LANDING)


def _no_files_of_the_machine(config: Config, problems: Problems) -> None:
    """A client's certificate and key are files, which no machine of EMR Serverless has."""
    for pipeline, source in config.sources():
        security = None if source.kafka is None else source.kafka.security
        for name in _FILES:
            found = getattr(security, name, None)
            if found is not None:
                path = ("pipelines", pipeline.name, "sources", source.name, "kafka", "security", name)
                problems.add(path, f"found the file {found}, which no machine of the job has; {_INSTEAD}")


def _common_folder(keys: Iterable[str]) -> str:
    """Up to the first folder name that the template's parameter does not allow. A shorter prefix is safe: events for
    other keys are ignored, and tables can be written."""
    levels = zip(*(key.split("/")[:-1] for key in keys), strict=False)
    common = takewhile(lambda level: len(set(level)) == 1 and _PLAIN.fullmatch(level[0]), levels)
    return "".join(f"{level[0]}/" for level in common)


def _few_buckets(sources: Iterable[_Location], problems: Problems) -> None:
    on_s3 = [location for location in sources if location.is_s3]
    taken = list(dict.fromkeys(location.bucket for location in on_s3))[:MAX_LANDINGS]
    for location in on_s3:
        if location.bucket not in taken:
            problems.add(
                location.path,
                f"found the bucket {location.bucket}; expected {', '.join(taken[:-1])} or {taken[-1]}, as above: a "
                f"stack has at most {MAX_LANDINGS} landing buckets. Deploy a second stack for other buckets",
            )


def _one_lake(tables: Iterable[_Location], problems: Problems) -> None:
    on_s3 = [location for location in tables if location.is_s3]
    for location in on_s3:
        if location.bucket != on_s3[0].bucket:
            problems.add(
                location.path,
                f"found the bucket {location.bucket}; expected {on_s3[0].bucket}, as above: a stack has one lake "
                "bucket. Deploy a second stack for other buckets",
            )


def _check_lake_is_not_landing(sources: Iterable[_Location], tables: Iterable[_Location], problems: Problems) -> None:
    landing = {location.bucket for location in sources if location.is_s3}
    for location in tables:
        if location.is_s3 and location.bucket in landing:
            problems.add(
                location.path,
                f"found {location.bucket}, a landing bucket; expected another bucket: the table's own files would "
                "trigger events as new files",
            )


def _errors(problems: Iterable[Problem]) -> ConfigError:
    return ConfigError([str(problem) for problem in problems])
