"""Tries each right that the job's role needs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Config
from blizzard.errors import NotFound, RetryableError
from blizzard.state.topic_checkpoint import Partition, path_of
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.s3_write import PART_BYTES
from spark_job.probe.checks import error_text
from spark_job.probe.scratch import FOLDER

T = TypeVar("T")

Open = Callable[[str, Callable[..., None]], ObjectStore]
"""Opens the store at a URI with a log."""


@dataclass
class Rights:
    """`denied`: actions with their resource and S3's answer. Other errors than a denial are there too, since whoever
    needs the right cannot go on either."""

    tried: int = 0
    denied: list[dict[str, str]] = field(default_factory=list)

    def attempt(self, action: str, resource: str, call: Callable[[], T]) -> T | None:
        self.tried += 1
        try:
            return call()
        except NotFound:
            return None  # only who may read is told that there is nothing
        except Exception as error:  # noqa: BLE001 - the next right has to be tried whatever this one met
            self.denied.append({"action": action, "resource": resource, "error": error_text(error)})
            return None


def try_rights(config: Config, config_uri: str, probe_id: str, open_at: Open) -> Rights:
    """`config` has been read from `config_uri`."""
    rights = Rights()
    folder, slash, name = config_uri.rpartition("/")
    artifacts = open_at(folder + slash, _no_log)
    rights.attempt("s3:GetObject", config_uri, lambda: artifacts.get(name))
    rights.attempt("s3:ListBucket", config_uri, lambda: next(artifacts.list(name), None))
    for uri in dict.fromkeys(source.uri for _, source in config.file_sources()):
        try_to_read(rights, open_at(uri, _no_log), probe_id)
    tables = list(dict.fromkeys(pipeline.table_uri for pipeline in config.pipelines.values()))
    for uri in tables:
        try_to_write(rights, open_at(uri, _no_log), probe_id)
    for _, source in config.sources():
        if source.kafka is not None:
            try_to_consume(rights, source.kafka)
    # The stack has one lake, and a part has eight megabytes.
    try_to_upload(rights, tables[0], probe_id, open_at)
    return rights


def try_to_read(rights: Rights, landing: ObjectStore, probe_id: str) -> None:
    """One byte of the first object, which also needs its KMS key; otherwise an object that does not exist."""
    first: ObjectInfo | None = rights.attempt("s3:ListBucket", landing.uri, lambda: next(landing.list(), None))
    if first is not None and first.size:
        rights.attempt("s3:GetObject", f"{landing.uri}*", lambda: landing.get_range(first.key, 0, 1))
    else:
        rights.attempt("s3:GetObject", f"{landing.uri}*", lambda: landing.get(f"_blizzard_probe-{probe_id}"))


def try_to_consume(rights: Rights, options: KafkaOptions) -> None:
    """The brokers' description of the topics, and the time of the oldest message of a partition that has one. Nothing
    is tried behind an attempt that failed: brokers that do not answer take 15 seconds each time."""
    resource = f"{options.topic_pattern or ','.join(options.topics or ())} of {options.bootstrap_servers}"

    def offsets() -> tuple[Mapping[Partition, int], Mapping[Partition, int]]:
        from blizzard.kafka.client import KafkaBrokers  # most stacks read no topics

        brokers = KafkaBrokers(options)
        partitions = brokers.cluster().partitions()
        return brokers.first_offsets(partitions), brokers.end_offsets(partitions)

    found = rights.attempt("kafka-cluster:DescribeTopic", resource, offsets)
    if found is None:
        return
    firsts, ends = found
    place = next((partition for partition, first in firsts.items() if first < ends[partition]), None)
    if place is not None:
        rights.attempt("kafka-cluster:ReadData", resource, lambda: read_one(options, place, firsts[place]))


def read_one(options: KafkaOptions, place: Partition, offset: int) -> None:
    """Raises BlizzardError if no message comes."""
    from blizzard.kafka.lag import PEEK_SECS, first_times

    if not first_times(options, {place: offset}):
        raise RetryableError(f"no message of {path_of(place)} came within {PEEK_SECS:.0f} s")


def try_to_write(rights: Rights, table: ObjectStore, probe_id: str) -> None:
    key = f"{FOLDER}{probe_id}/rights"
    rights.attempt("s3:PutObject", f"{table.uri}*", lambda: table.put(key, probe_id.encode()))
    rights.attempt("s3:GetObject", f"{table.uri}*", lambda: table.get(key))
    rights.attempt("s3:ListBucket", table.uri, lambda: next(table.list(key), None))
    rights.attempt("s3:DeleteObject", f"{table.uri}*", lambda: table.delete([key]))


class _GiveUp(Exception):
    """Ends an upload before it is complete, so that it leaves no object."""


def try_to_upload(rights: Rights, table_uri: str, probe_id: str, open_at: Open) -> None:
    """An upload in parts that is aborted. A failure to abort is only logged by the store."""
    not_aborted: list[str] = []

    def note(event: str, /, **fields: object) -> None:
        if event == "upload_not_aborted":
            not_aborted.append(str(fields.get("error")))

    table = open_at(table_uri, note)

    def upload() -> None:
        with suppress(_GiveUp), table.writer(f"{FOLDER}{probe_id}/parts") as writer:
            for _ in range(2):  # the second one waits for what became of the first
                writer.write(bytes(PART_BYTES))
            raise _GiveUp

    rights.attempt("s3:PutObject", f"{table.uri}*", upload)
    rights.tried += 1
    for error in not_aborted:
        rights.denied.append({"action": "s3:AbortMultipartUpload", "resource": f"{table.uri}*", "error": error})


def _no_log(event: str, /, **fields: object) -> None:
    """A store's own events are not part of the probe's line."""
