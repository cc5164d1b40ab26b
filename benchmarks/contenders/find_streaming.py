"""Structured Streaming with a long history: its file source's own log names so many files, and 100 are new."""

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
    """Run 0 makes the history: a stream over a folder of one file, whose log is then told of all the others."""
    from benchmarks.contenders.session import session_of

    spark, known = session_of(work), SyntheticHistory(**work.options)
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
            (path,) = known.first()[:1]
            (first / path).parent.mkdir(parents=True)
            (first / path).write_bytes(Path(work.source_uri, path).read_bytes())
            secs = drain(first)
            append_to_source_log(stream / "sources" / "0" / "0", known)
            return {"commit_secs": secs}
        with known.dropped(number):
            return {"commit_secs": drain(work.source_uri)}

    yield run


def append_to_source_log(log: Path, known: SyntheticHistory) -> None:
    """One line for each file that the source has seen; and no checksum of the file as it was before."""
    modified_ms = int(1000 * Path(known.folder, known.path(0)).stat().st_mtime)
    with log.open("a") as lines:
        for number in range(known.count):
            entry = {"path": f"file://{known.folder}/{known.path(number)}", "timestamp": modified_ms, "batchId": 0}
            lines.write("\n" + json.dumps(entry, separators=(",", ":")))
    log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
