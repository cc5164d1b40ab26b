"""Reads one hostile file, or hostile documents, in a separate process, and prints its peak memory."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.suite.subprocess_run import peak_bytes
from blizzard.collect import messages as events
from blizzard.errors import BlizzardError
from blizzard.manifest import segment_codec
from blizzard.state import checkpoint
from blizzard.state.receipts import Receipts
from blizzard.storage.memory import MemoryStore
from spark_job.formats.protocol import Limits
from tests.proof.bad_input import documents
from tests.proof.bad_input.corpus import GOOD, memory_bombs
from tests.proof.bad_input.reader import Parts, read_batch
from tests.proof.campaign import Failed

MOST_BYTES = 256 << 20
"""Limit above the memory for a small file. Without a limit in the product, the first bomb takes ten times its size."""
SECS = 120
DOCUMENT_MIB = 4
"""Four times what a queue accepts. Documents in the lake are trusted, and may be larger."""


def check_memory(folder: Path, limits: Limits) -> int:
    """The peak in bytes for the worst bomb. Raises Failed."""
    worst = 0
    for name, body in memory_bombs():
        (folder / name).write_bytes(body)
        said = _apart(name, [str(folder), name, json.dumps(_values(limits))])
        worst = max(worst, said["bytes"])
        _check_bytes(f"{name} of {len(body)} bytes", said["bytes"])
        if not said["error"] or "limit max_" not in said["error"]:
            raise Failed(f"{name}: {said['error']}; expected a limit's name")
    return worst


def check_documents(mib: int = DOCUMENT_MIB) -> int:
    """The peak in bytes for a message, a segment, a checkpoint and a receipt of `mib` MiB each. Raises Failed."""
    said = _apart("documents", [str(mib)])
    _check_bytes(f"a document of {mib} MiB", said["bytes"])
    return int(said["bytes"])


def _apart(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The output of this module in a separate process."""
    command = [sys.executable, "-m", __spec__.name, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECS, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: not read after {SECS} s") from None
    if done.returncode:
        raise Failed(f"{name}: the process that reads it ended with {done.returncode}: {done.stderr[-500:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _check_bytes(what: str, taken: int) -> None:
    if taken > MOST_BYTES:
        raise Failed(f"{what} takes {taken >> 20} MiB; expected {MOST_BYTES >> 20} at most")


def _values(limits: Limits) -> Mapping[str, int]:
    return {"max_record_bytes": limits.max_record_bytes, "max_file_bytes": limits.max_file_bytes}


def _read(folder: Path, name: str, limits: Limits) -> Mapping[str, object]:
    read_batch(folder / "small", {"small.ndjson": GOOD * 1_000}, Parts())
    before = peak_bytes()
    found = read_batch(folder / f"table-{name}", {name: (folder / name).read_bytes()}, replace(Parts(), limits=limits))
    return {"bytes": peak_bytes() - before, "error": found.outcomes[0].error}


def _decode(mib: int) -> Mapping[str, object]:
    """One document of each kind with an unknown field, whose content takes the most memory for its size."""
    filled = '{"x": [' + "{}," * (mib * (1 << 20) // 3) + "{}], "
    store = MemoryStore(lambda: 0.0)
    receipts = Receipts(store, "state")
    name = receipts.put(sequence=1, attempt="a", previous=None, now_ts=0.0, lines=[]).name
    (stored,) = store.list("state/")
    receipt = gzip.decompress(store.get(stored.key)).decode()
    store.put(stored.key, gzip.compress((filled + receipt[1:]).encode(), 1))
    message = filled + documents.put("a.ndjson")[1:]
    segment = (filled + json.dumps(documents.segment_document())[1:]).encode()
    state = filled + json.dumps(documents.checkpoint_document())[1:]
    decoders: Mapping[str, Callable[[], object]] = {
        "message": lambda: events.parse_message(message),
        "segment": lambda: segment_codec.decode_segment(segment, documents.SOURCE_ID, documents.REF),
        "checkpoint": lambda: checkpoint.decode(state, pipeline="events", source="landing"),
        "receipt": lambda: receipts.get(name),
    }
    before = peak_bytes()
    for decode in decoders.values():
        with suppress(BlizzardError):
            decode()
    return {"bytes": peak_bytes() - before}


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(_decode(int(sys.argv[1]))))
    else:
        print(json.dumps(_read(Path(sys.argv[1]), sys.argv[2], Limits(**json.loads(sys.argv[3])))))
