"""Whether a configuration fits the stack, which knows one landing bucket and one lake bucket."""

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


@dataclass(frozen=True, slots=True)
class Buckets:
    landing: str
    landing_prefix: str
    """Folders that all sources lie below, with a `/` at the end; empty for the whole bucket."""
    lake: str


@dataclass(frozen=True, slots=True)
class Fitting:
    config: Config
    buckets: Buckets


@dataclass(frozen=True, slots=True)
class _Place:
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


def read_fitting_file(config: FilePath, environ: Mapping[str, str]) -> Fitting:
    """As read_fitting, of a file, whose folder is where relative paths in it start."""
    try:
        text = config.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}; expected the path of a configuration file"
        raise ConfigError([f"{config}: {reason}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{config}: found a byte that is not UTF-8; save the file as UTF-8"]) from error
    return read_fitting(text, environ, name=str(config), folder=str(config.absolute().parent))


def read_fitting(text: str, environ: Mapping[str, str], *, name: str, folder: str) -> Fitting:
    """As read_config. Raises ConfigError with everything that is wrong, or that AWS could not run."""
    reading = read_config(text, environ, name=name, folder=folder)
    if reading.config is None:
        raise _errors(reading.problems)
    config, problems = reading.config, Problems(name, read_document(text, name).lines)
    tables = [_Place(("pipelines", p.name, "table_uri"), p.table_uri) for p in config.pipelines.values()]
    sources = [_Place(("pipelines", p.name, "sources", s.name, "uri"), s.uri) for p, s in config.sources()]
    for place in (*tables, *sources):
        if not place.is_s3:
            problems.add(
                place.path, f"found {place.uri}; expected s3://bucket/…: functions and job see no disk of yours"
            )
    _one_bucket(sources, "landing", problems)
    _one_bucket(tables, "lake", problems)
    _apart(sources, tables, problems)
    if found := problems.sorted():
        raise _errors(found)
    return Fitting(config, Buckets(sources[0].bucket, _common_folder(place.key for place in sources), tables[0].bucket))


def _common_folder(keys: Iterable[str]) -> str:
    """As far as the template's parameter can spell it; a shorter one lets in more, which no source wants."""
    levels = zip(*(key.split("/")[:-1] for key in keys), strict=False)
    common = takewhile(lambda level: len(set(level)) == 1 and _PLAIN.fullmatch(level[0]), levels)
    return "".join(f"{level[0]}/" for level in common)


def _one_bucket(places: Iterable[_Place], kind: str, problems: Problems) -> None:
    on_s3 = [place for place in places if place.is_s3]
    for place in on_s3:
        if place.bucket != on_s3[0].bucket:
            problems.add(
                place.path,
                f"found the bucket {place.bucket}; expected {on_s3[0].bucket}, as above: a stack has one {kind} "
                "bucket. Publish and deploy what lies elsewhere as a stack of its own",
            )


def _apart(sources: Iterable[_Place], tables: Iterable[_Place], problems: Problems) -> None:
    landing = {place.bucket for place in sources if place.is_s3}
    for place in tables:
        if place.is_s3 and place.bucket in landing:
            problems.add(
                place.path,
                f"found {place.bucket}, the landing bucket; expected another bucket: the table's own files would be "
                "announced as new ones",
            )


def _errors(problems: Iterable[Problem]) -> ConfigError:
    return ConfigError([str(problem) for problem in problems])
