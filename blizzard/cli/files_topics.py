"""`blizzard files` of a source that reads topics."""

from collections.abc import Iterator

import typer

from blizzard.audit.topic_plan import has_lost_txn, topic_backlog
from blizzard.audit.topic_ranges import CommittedRanges, OffsetsLife, committed_ranges, waiting_ranges, with_losses
from blizzard.cli.brokers_of import brokers_of
from blizzard.cli.files_asked import Asked
from blizzard.cli.selection import given_paths
from blizzard.cli.times import shown
from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.kafka.table_state import topic_state
from blizzard.log import one_line
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import path_of
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

_REPAIRS = {
    "records": "messages that had been refused, by a replay",
    "given": "repaired messages, by a replay",
    "whole": "all of its messages anew, by a replace",
}


def topic_lives(
    pipeline: Pipeline, source: Source, options: KafkaOptions, asked: Asked, settings: S3Settings
) -> tuple[list[OffsetsLife], set[str]]:
    """By partition, in the order of their offsets; with the paths of all partitions. `asked.limit`: of committed
    ranges, the newest. Errors as of `topic_state` and `topic_backlog`."""
    globs = [glob for glob in asked.globs if "://" not in glob]
    if asked.globs and not globs:
        return [], set()
    matches = given_paths(globs, "PATTERN").matches
    identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
    store = open_store(pipeline.table_uri, settings, may_be_missing=True)
    state, ranges = topic_state(store, identity), CommittedRanges()
    if state.checkpoint is not None:
        ranges = committed_ranges(
            store, identity, state.checkpoint, matches, since_ts=asked.since_ts, limit=asked.limit
        )
    txn_lost = has_lost_txn(state, store, identity, pipeline.table_uri, settings)
    brokers, configured = brokers_of(source, options), pipeline.source_ids
    backlog = topic_backlog(state, store, identity, brokers, options, configured=configured, txn_lost=txn_lost)
    _explain(source.id, ranges, backlog.problem)
    waiting: dict[str, list[OffsetsLife]] = {}
    for life in waiting_ranges(source.id, backlog.partitions, matches):
        waiting.setdefault(life.path, []).append(life)
    found: list[OffsetsLife] = []
    for path in sorted({*waiting, *ranges.lives}):
        found += reversed(with_losses(ranges.lives.get(path, [])))
        found += waiting.get(path, [])
    partitions = {path_of((one.topic, one.partition)) for one in backlog.partitions}
    return [life for life in found if not asked.states or life.state in asked.states], partitions


def _explain(source_id: str, ranges: CommittedRanges, problem: str | None) -> None:
    said = [f"the receipts of the commits {one.first:,} to {one.last:,} are not there" for one in ranges.missing]
    if ranges.cut:
        said.append("there are older commits: --limit 0 shows all")
    for text in (*said, *filter(None, (problem,))):
        typer.echo(one_line(f"{source_id}: {text}"), err=True)


def offsets_facts(life: OffsetsLife) -> Iterator[tuple[str, str]]:
    if life.first_offset is not None and life.next_offset is not None:
        yield "offsets", f"{life.first_offset:,} to {life.next_offset - 1:,}"
    yield "state", life.state.replace("_", " ")
    if life.reason is not None:
        yield "why", life.reason
    if life.repair is not None:
        yield "brought", _REPAIRS.get(life.repair, life.repair)
    if life.sequence is not None:
        version = "unknown" if life.table_version is None else f"{life.table_version:,}"
        yield "commit", f"{life.sequence:,} (table version {version}), {shown(life.committed_ts)}"
        yield "rows", f"{life.rows or 0:,}, and {life.rejected or 0:,} messages refused"
