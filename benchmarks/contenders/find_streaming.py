"""Structured Streaming with a long history: the log of its file source lists many seen files, and 100 are new."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.synthetic_history import SyntheticHistory

TITLE = "Structured Streaming"
UNSUPPORTED: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Run 0 makes the history: it streams a folder of one file, then adds all other files to the source's log."""
    from benchmarks.contenders.session import session_of

    spark, history = session_of(work), SyntheticHistory(**work.options)
    stream, first = Path(work.out, "stream"), Path(work.out, "first")

    def drain(folder: Path | str) -> float:
        began = time.monotonic()
        reader = spark().readStream.schema(f"{work.data.schema}, date DATE")
        writer = reader.json(str(folder)).writeStream.format("delta").partitionBy("date")
        writer = writer.option("checkpointLocation", str(stream)).trigger(availableNow=True)
        writer.start(work.table(0)).awaitTermination()
        return time.monotonic() - began

    def run(number: int) -> dict[str, Any]:
        if number == 0:
            (path,) = history.first()[:1]
            (first / path).parent.mkdir(parents=True)
            (first / path).write_bytes(Path(work.source_uri, path).read_bytes())
            secs = drain(first)
            append_to_source_log(stream / "sources" / "0" / "0", history)
            return {"commit_secs": secs}
        with history.dropped(number):
            return {"commit_secs": drain(work.source_uri)}

    yield run


def append_to_source_log(log: Path, history: SyntheticHistory) -> None:
    """Adds a line per file to the log of seen files, and removes the log's checksum file, which no longer matches."""
    modified_ms = int(1000 * Path(history.folder, history.path(0)).stat().st_mtime)
    with log.open("a") as lines:
        for number in range(history.count):
            entry = {"path": f"file://{history.folder}/{history.path(number)}", "timestamp": modified_ms, "batchId": 0}
            lines.write("\n" + json.dumps(entry, separators=(",", ":")))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
