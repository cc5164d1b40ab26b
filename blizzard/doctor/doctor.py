"""Every check of a configuration, of the places in it, and of the stack that runs it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from blizzard.config.load import read_config_file
from blizzard.config.model import Config, Pipeline
from blizzard.config.publish import as_functions_read
from blizzard.config.published import PublishedConfig
from blizzard.doctor import configuration, leftovers, runs, state, storage, table, topics
from blizzard.doctor.aws import checks as aws
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Result
from blizzard.doctor.examine import OnCheck, examine
from blizzard.doctor.source_state import SourceState
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

MAX_ATTEMPTS = 3
"""Of a request: somebody waits for the answer."""


@dataclass(frozen=True, slots=True)
class Examination:
    """`stack`: the name of the deployed stack; None: the configuration runs without one. `clock` gives Unix seconds."""

    file: str
    environ: Mapping[str, str]
    clock: Callable[[], float]
    stack: str | None = None
    on_check: OnCheck = lambda check_id, subject: None

    def results(self) -> Iterator[Result]:
        """Raises ConfigError for a wrong environment."""
        settings = S3Settings.from_environment(self.environ)
        settings = replace(settings, max_attempts=min(MAX_ATTEMPTS, settings.max_attempts))
        reading = read_config_file(self.file, self.environ)
        read = configuration.ConfigurationFile(self.file, reading, self.environ, deployed=self.stack is not None)
        yield from examine(self.file, read, configuration.CHECKS, self.on_check)
        if reading.config is not None:
            yield from self._places(reading.config, settings)
        yield from self._stack(reading.config, settings)

    def _places(self, config: Config, settings: S3Settings) -> Iterator[Result]:
        for bucket in _buckets(config, settings, self.clock):
            yield from examine(f"s3://{bucket.name}", bucket, storage.BUCKET_CHECKS, self.on_check)
        for _, source in config.file_sources():
            place = storage.SourcePlace(source, open_store(source.uri, settings))
            yield from examine(source.id, place, storage.SOURCE_CHECKS, self.on_check)
        for uri, pipelines in _tables(config).items():
            yield from self._table(uri, pipelines, settings)
        published = as_functions_read(config)
        for pipeline in config.pipelines.values():
            store = open_store(pipeline.table_uri, settings, may_be_missing=True)
            yield from self._pipeline(pipeline, published, store)

    def _table(self, uri: str, pipelines: list[Pipeline], settings: S3Settings) -> Iterator[Result]:
        store = open_store(uri, settings, may_be_missing=True)
        place = storage.TablePlace(uri, store, settings, _folder(uri))
        yield from examine(uri, place, storage.TABLE_CHECKS, self.on_check)
        examined = table.ExaminedTable(uri, store, pipelines, self.clock, settings)
        yield from examine(uri, examined, table.CHECKS, self.on_check)
        uploads = leftovers.UploadsOfTable(uri, settings, self.clock)
        yield from examine(uri, uploads, leftovers.TABLE_CHECKS, self.on_check)

    def _pipeline(self, pipeline: Pipeline, published: PublishedConfig, store: ObjectStore) -> Iterator[Result]:
        for source in pipeline.sources.values():
            if source.kafka is not None:
                read = topics.SourceTopics(source, source.kafka, store, self.clock, deployed=self.stack is not None)
                yield from examine(source.id, read, topics.CHECKS, self.on_check)
        for each in published.pipelines[pipeline.name].sources:
            alone = replace(published.pipelines[pipeline.name], sources=(each,), topics=())
            examined = SourceState(
                pipeline.sources[each.name], alone, store, self.clock, deployed=self.stack is not None
            )
            yield from examine(each.id, examined, (*state.CHECKS, *leftovers.SOURCE_CHECKS), self.on_check)
        started = runs.RunsOfPipeline(pipeline.name, store, self.clock)
        yield from examine(pipeline.name, started, runs.CHECKS, self.on_check)

    def _stack(self, config: Config | None, settings: S3Settings) -> Iterator[Result]:
        if self.stack is None:
            yield from aws.without_a_stack()
            return
        yield from aws.examine_stack(Stack(self.stack, config, settings, self.clock), self.on_check)


def _buckets(config: Config, settings: S3Settings, clock: Callable[[], float]) -> Iterable[storage.Bucket]:
    uris = [*(source.uri for _, source in config.file_sources()), *_tables(config)]
    found: dict[str, storage.Bucket] = {}
    for bucket, prefix in filter(None, map(storage.place_of, uris)):
        found.setdefault(bucket, storage.Bucket(bucket, prefix, settings, clock))
    return found.values()


def _tables(config: Config) -> dict[str, list[Pipeline]]:
    found: dict[str, list[Pipeline]] = {}
    for pipeline in config.pipelines.values():
        found.setdefault(pipeline.table_uri, []).append(pipeline)
    return found


def _folder(uri: str) -> Path | None:
    return Path(uri.removeprefix("file://")) if uri.startswith("file://") else None
