"""A landing folder and a table that the local engine ingests into, with `schema: infer`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Schema

from blizzard.config.load import parse_config
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.wiring import SourceJob, source_job

Events = list[dict[str, Any]]


class Lake:
    """A landing folder and a table; `events` is what the jobs logged."""

    def __init__(self, folder: Path) -> None:
        self.landing, self.table = folder / "landing", folder / "lake" / "t"
        self.landing.mkdir(parents=True)
        self.name = folder.name
        self.events: Events = []
        self.on_event: Callable[[str], None] = lambda event: None
        self._engines: list[LocalEngine] = []

    def land(self, name: str, *records: dict[str, Any]) -> None:
        self.land_bytes(name, b"".join(json.dumps(record).encode() + b"\n" for record in records))

    def land_bytes(self, name: str, data: bytes) -> None:
        file = self.landing / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def job(self, source: str = "schema: infer", pipeline: str = "", others: str = "") -> SourceJob:
        """`others`: the pipeline's other sources."""
        text = f"""
            pipelines:
              p_{self.name}:
                table_uri: {self.table}
                {pipeline}
                sources: {{{self.name}: {{uri: {self.landing}, settle_delay_secs: 0, {source}}}{others}}}
        """
        found = next(parse_config(text, {}, folder="/").sources())
        engine = LocalEngine(S3Settings(), dict, self._note, cores=1)
        self._engines.append(engine)
        return source_job(*found, engine=engine, s3=S3Settings(), log=self._note)

    def run(self, source: str = "schema: infer", pipeline: str = "") -> None:
        """A new process's worth: nothing is known but what is stored."""
        drain(self.job(source, pipeline))

    def _note(self, event: str, /, **fields: object) -> None:
        self.events.append({"event": event, **fields})
        self.on_event(event)

    def named(self, event: str) -> Events:
        return [one for one in self.events if one["event"] == event]

    def columns(self) -> dict[str, str]:
        schema: Schema = DeltaTable(self.table).schema()
        return {field.name: str(field.type) for field in schema.fields if field.name != "_source"}

    def rows(self, column: str = "id") -> list[Any]:
        return sorted(DeltaTable(self.table).to_pyarrow_table().column(column).to_pylist(), key=str)

    def letters(self) -> list[Path]:
        return [*self.table.glob("_blizzard/*/dead_letters/*/records-*")]

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


def drain(job: SourceJob) -> None:
    job.sweep(late=True, record_if_empty=False)
    job.ingest.drain()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    found = Lake(tmp_path / "s")
    yield found
    found.close()
