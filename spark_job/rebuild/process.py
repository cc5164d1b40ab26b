"""A rebuild as its process does it: what is found is told as JSON lines, and an answer is awaited before anything is
written."""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from blizzard.audit.repair import PARALLEL_HEADS, announce
from blizzard.audit.snapshot import read_snapshot
from blizzard.audit.source import audited_source
from blizzard.config.model import Config, Pipeline, Source
from blizzard.errors import BlizzardError, ConfigError, RecoveryError
from blizzard.log import Log
from blizzard.storage.heads import heads
from blizzard.storage.s3_connection import S3Settings
from spark_job.main import run_once
from spark_job.rebuild.compare import Accepted, Comparison, compared_tables
from spark_job.rebuild.held_rows import RowCounter
from spark_job.rebuild.move import move
from spark_job.rebuild.parts import Parts
from spark_job.rebuild.staged_store import StagedStore
from spark_job.rebuild.state import StateRebuild
from spark_job.rebuild.stopped import Stopped, stopped_by
from spark_job.rebuild.topic_parts import rebuilt_topics
from spark_job.rebuild.topic_state import TopicStateRebuild
from spark_job.start import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, EXIT_STOPPED
from spark_job.tasks.engine import Engine
from spark_job.wiring import new_id, opened_source, source_job, source_parts

YES = "yes"
EXIT_DECLINED = EXIT_CONFIG


def tell(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def ask() -> bool:
    """Whether who started this process answers with yes. At the end of standard input it is no."""
    tell(asks=True)
    return sys.stdin.readline().strip() == YES


@dataclass(frozen=True, slots=True)
class _Looked:
    """At one source's state: what is told of it, and what repairs it."""

    document: Mapping[str, Any]
    is_well: bool
    apply: Callable[[], int]


def _looked_at(rebuild: StateRebuild | TopicStateRebuild) -> _Looked:
    if isinstance(rebuild, StateRebuild):
        found = rebuild.find()
        return _Looked(found.as_document(), found.is_well, partial(rebuild.apply, found))
    topics = rebuild.find()
    return _Looked(topics.as_document(), topics.is_well, partial(rebuild.apply, topics))


@dataclass(frozen=True, slots=True)
class RebuildProcess:
    """`engine_of`: what runs a pipeline. `agreed`: whether what was told shall be done. `stop`: set by a signal."""

    config: Config
    engine_of: Callable[[Pipeline], Engine]
    s3: S3Settings
    agreed: Callable[[], bool]
    stop: threading.Event
    log: Log

    def parts(self, pipeline: Pipeline, source: Source) -> Parts:
        """With nothing staged yet. Commits no rows, whatever the columns of the table."""
        parts = source_parts(pipeline, source, engine=self.engine_of(pipeline), s3=self.s3, log=self.log)
        state = StagedStore(parts.state, time.time)
        opened = opened_source(replace(parts, state=state, only_states=True))
        return Parts(
            identity=parts.identity,
            settings=parts.settings,
            table=opened.table,
            state=state,
            files=parts.files,
            ingest=opened.ingest,
            known=self._known(pipeline, source),
            clock=time.time,
            new_id=new_id,
            log=self.log,
        )

    def _known(self, pipeline: Pipeline, source: Source) -> set[str]:
        """The ids of all configured sources of the table."""
        return {*self.config.sources_of(pipeline.table_uri), source.id}

    def _state_rebuild(self, pipeline: Pipeline, source: Source) -> StateRebuild | TopicStateRebuild:
        """Raises PermanentError for a source that reads topics, if Kafka's client is not installed."""
        if source.kafka is None:
            return StateRebuild(self.parts(pipeline, source))
        engine, known = self.engine_of(pipeline), self._known(pipeline, source)
        parts = rebuilt_topics(pipeline, source, source.kafka, engine=engine, s3=self.s3, log=self.log, known=known)
        return TopicStateRebuild(parts)

    def _check_place(self, pipeline: Pipeline, source: Source) -> None:
        """Raises BucketMissing if there is no such folder or bucket; other errors of storage."""
        if source.kafka is None:
            files = source_parts(pipeline, source, engine=self.engine_of(pipeline), s3=self.s3, log=self.log).files
            next(iter(files.list()), None)

    # -- the state of each source, in its table

    def rebuild_states(self, wanted: Sequence[tuple[Pipeline, Source]]) -> int:
        """Returns the exit code."""
        planned, code = [], EXIT_OK
        for pipeline, source in wanted:
            try:
                found = _looked_at(self._state_rebuild(pipeline, source))
                if found.is_well:  # what is not well is repaired by the table alone
                    self._check_place(pipeline, source)
            except BlizzardError as error:
                tell(refused=source.id, error=str(error))
                code = EXIT_FAILED
                continue
            tell(found=found.document)
            if not found.is_well:
                planned.append((pipeline, source, found.apply))
        if planned and not self.agreed():
            return EXIT_DECLINED
        for pipeline, source, apply in planned:
            try:
                apply()
                now = _looked_at(self._state_rebuild(pipeline, source))
            except BlizzardError as error:
                tell(refused=source.id, error=str(error))
                code = EXIT_FAILED
                continue
            tell(rebuilt=now.document)
            code = code if now.is_well else EXIT_FAILED
        return code

    # -- another table

    def rebuild_table(self, old: Pipeline, new: Pipeline, *, swap: bool, accepted: Accepted) -> int:
        """`new`: the pipeline as it writes to the other table. Returns the exit code."""
        try:
            self._check_target(new)
            self._take_back(new)
            code = self._drain(new)
            return self._swap(old, new, accepted) if swap and code == EXIT_OK else code
        except BlizzardError as error:
            tell(failed=str(error))
            return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED

    def _swap(self, old: Pipeline, new: Pipeline, accepted: Accepted) -> int:
        if not any(self._exists(old, source) for source in old.sources.values()):
            raise RecoveryError(
                f"there is no table {old.table_uri}, so nothing shows whether {new.table_uri} has everything. Change "
                "`table_uri` by hand."
            )
        if (code := self._compared(old, new, accepted, announces=True)) != EXIT_OK:
            return code
        if not self.agreed():
            return EXIT_DECLINED
        try:
            code = self._moved(old, new, accepted)
        except BlizzardError:
            self._take_back(old)
            raise
        if code == EXIT_OK:
            tell(swapped=new.table_uri)
        else:  # so that jobs go on where they were
            self._take_back(old)
        return code

    def _moved(self, old: Pipeline, new: Pipeline, accepted: Accepted) -> int:
        for source in old.sources.values():
            move(self.parts(old, source), new.table_uri, sleep=time.sleep)
            tell(moved=source.id)
        code = self._drain(new)  # what the old table has got since it was compared
        return self._compared(old, new, accepted) if code == EXIT_OK else code

    def _take_back(self, pipeline: Pipeline) -> None:
        """The table counts again, if another one has taken its place."""
        for source in pipeline.sources.values():
            if self._exists(pipeline, source) and move(self.parts(pipeline, source), None, sleep=time.sleep):
                tell(taken_back=source.id)

    def _compared(self, old: Pipeline, new: Pipeline, accepted: Accepted, *, announces: bool = False) -> int:
        """Success if the new table has all that it has to have. `announces`: whether what it lacks is announced and
        read before. No sweep finds it: this had been another table before, whose state has lost files without rows."""
        with TemporaryDirectory(prefix="blizzard-rebuild-") as folder:
            found = self._comparisons(old, new, Path(folder))
        if found is None:
            return EXIT_STOPPED
        announced = [announces and self._announced(new, new.sources[name], found[name].lacking) for name in found]
        if any(announced):
            code = self._drain(new)
            return self._compared(old, new, accepted) if code == EXIT_OK else code
        code = EXIT_OK
        for each in found.values():
            is_complete = each.is_complete(accepted)
            if each.others:
                tell(others=each.others_as_document())
            tell(compared=each.as_document(), complete=is_complete)
            code = code if is_complete else EXIT_FAILED
        return code

    def _comparisons(self, old: Pipeline, new: Pipeline, folder: Path) -> dict[str, Comparison] | None:
        """By the source's name; None: a signal has stopped it. Rows of others are counted with the first one."""
        found, known = dict[str, Comparison](), [source.id for source in old.sources.values()]
        for number, name in enumerate(old.sources):
            if self.stop.is_set():
                return None
            parts = self.parts(old, old.sources[name]), self.parts(new, new.sources[name])
            audited = audited_source(old, old.sources[name], self.s3), audited_source(new, new.sources[name], self.s3)
            folders, of_others = (folder / f"{number}-old", folder / f"{number}-new"), None if number else known
            check = stopped_by(self.stop)
            count_old, count_new = (RowCounter(*each, of_others, check) for each in zip(audited, folders, strict=True))
            try:
                found[name] = compared_tables(*parts, count_old, count_new)
            except Stopped:
                return None
        return found

    def _announced(self, new: Pipeline, source: Source, lacking: Sequence[str]) -> bool:
        """Returns whether the source still has any of these files."""
        audited = audited_source(new, source, self.s3)
        there = (info for info in heads(audited.files, lacking, at_once=PARALLEL_HEADS).values() if info is not None)
        missing = [(info.key, info.size, info.etag, info.modified_ts) for info in there]
        if missing:
            checkpoint = read_snapshot(audited).checkpoint
            announce(audited, checkpoint, missing, writer_id=new_id(), now_ts=time.time())
        return bool(missing)

    def _drain(self, pipeline: Pipeline) -> int:
        engine = self.engine_of(pipeline)
        sources = pipeline.sources.values()
        jobs = [source_job(pipeline, source, engine=engine, s3=self.s3, log=self.log) for source in sources]
        return run_once(jobs, True, self.log, self.stop)

    def _exists(self, pipeline: Pipeline, source: Source) -> bool:
        return self.parts(pipeline, source).table.newest_version() >= 0

    def _check_target(self, new: Pipeline) -> None:
        """Raises ConfigError for a table that has rows, none of which are of this pipeline."""
        every = [self.parts(new, source) for source in new.sources.values()]
        if every[0].table.newest_version() < 0:
            return
        if any(parts.table.txn_version(parts.identity.app_id) is not None for parts in every):
            return
        first = every[0].table
        if first.holds_rows_of_nobody() or first.files_of_others():
            expected = f"expected no table there, or one that `blizzard rebuild` has begun for pipeline {new.name}"
            raise ConfigError(
                [f"--to: table {new.table_uri} holds rows of something else; {expected}. Name another place"]
            )
