"""One damaged file: what the product makes of it, compared with an independent reading of the same bytes."""

import random
import resource
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.proof.bad_input.plain_codecs import BY_EXTENSION
from tests.proof.bad_input.records import Fate
from tests.proof.campaign import Failed
from tests.proof.formats.corpus import KINDS
from tests.proof.formats.memory import peak, reset_peak, start_orc
from tests.proof.formats.mutators import UNDAMAGED, Damaged, damaged
from tests.proof.formats.product import CHUNKS, LIMITS, Found, opened, read
from tests.proof.formats.verdicts import UNKNOWN, Reading

_STATUS = Path("/proc/self/status")
FILES, DEAD, UNJUDGED = "damaged files", "files that are dead as a whole", "files that only the general rules judge"
ROWS, REFUSED, SPARK = "rows", "refused records", "records left to Spark"
_RESERVED_FLAGS = b"\x20"
"""Of gzip's header, from which on a flag means nothing: zlib refuses it, and others do not look."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one file may cost: memory above what the processes have that read it, and processor time."""

    bytes: int = 256 << 20
    secs: float = 10.0


def check(kind: str, seed: str, bounds: Bounds, began_oracle: Callable[[], object] = lambda: None) -> Counter[str]:
    """Raises Failed; a process that takes too long is killed by SIGPROF."""
    file = damaged(KINDS[kind], seed)
    return check_file(file, random.Random(f"{seed}/reading"), bounds, began_oracle)


def check_file(
    file: Damaged, rng: random.Random, bounds: Bounds, began_oracle: Callable[[], object] = lambda: None
) -> Counter[str]:
    if file.kind.name == "orc":
        start_orc(KINDS["orc"].bases()[0].body)
    found = _within(bounds, lambda: _read(file, rng))
    began_oracle()
    counts = Counter({FILES: 1, ROWS: len(found.rows), DEAD: found.fault is not None})
    counts[SPARK] = sum(reason is None for reason in found.refused.values())
    counts[REFUSED] = len(found.refused) - counts[SPARK]
    reading = independent(file)
    if file.did == [UNDAMAGED]:
        _check_undamaged(file, found)
    if reading.is_certain:
        compare(found, reading)
    else:
        counts[UNJUDGED] = 1
    return counts


def independent(file: Damaged) -> Reading:
    body = file.body
    for extension, unpack in BY_EXTENSION.items():
        if file.path.endswith(extension) and file.kind.name != "binary":
            body, is_whole = unpack(body, LIMITS.max_file_bytes)
            if not is_whole and extension == ".gz" and file.body[3:4] >= _RESERVED_FLAGS:
                return UNKNOWN
            if not is_whole:
                return Reading(None, f"it is no whole {extension}")
    return file.kind.oracle(body, file.kind.schema, file.base.options)


def compare(found: Found, reading: Reading) -> None:
    """Raises Failed."""
    if found.fault is not None:
        if reading.records is not None and not reading.may_be_dead and "limit max_" not in found.fault:
            raise Failed(f"dead, and an independent reader reads {len(reading.records)} records: {found.fault:.300}")
        return
    if reading.records is None:
        raise Failed(f"gave {len(found.rows)} rows, and an independent reader refuses the file: {reading.why:.300}")
    if found.count != len(reading.records):
        raise Failed(f"found {found.count} records; an independent reader finds {len(reading.records)}")
    for number, record in enumerate(reading.records):
        if number in found.rows:
            why = record.differs(found.rows[number])
            if why or record.fate is Fate.DEAD:
                raise Failed(f"record {number}: {why or 'it is a row, and an independent reader refuses it'}")
        elif record.fate is Fate.ROW and found.refused[number] is not None:
            raise Failed(f"record {number} is refused, and fits: {found.refused[number]!a:.200}")


def _check_undamaged(file: Damaged, found: Found) -> None:
    base = file.base
    refused = sum(reason is not None for reason in found.refused.values())
    if (found.count, refused) != (base.records, base.refused) and (base.records >= 0 or not found.fault):
        raise Failed(f"of a good file {found.count} records, {refused} refused ({found.fault})")


def _read(file: Damaged, rng: random.Random) -> Found:
    """The whole file; sometimes also from a record in its middle, as after a crash."""
    file_format, chunk_bytes = opened(file), rng.choice(CHUNKS)
    found = read(file, file_format, chunk_bytes=chunk_bytes, together=rng.random() < 0.5)
    if rng.random() < 0.2 and found.fault is None:
        first = rng.randrange(found.count + 2)
        rest = read(file, file_format, chunk_bytes=rng.choice(CHUNKS), first_record=first)
        wanted = {number: repr(row) for number, row in found.rows.items() if number >= first}
        if rest.fault is not None or {number: repr(row) for number, row in rest.rows.items()} != wanted:
            raise Failed(f"from record {first} on it reads otherwise than from its start: {rest.fault}")
    return found


def _within(bounds: Bounds, call: Callable[[], Found]) -> Found:
    before = reset_peak()
    signal.setitimer(signal.ITIMER_PROF, bounds.secs)
    try:
        found = call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    taken = peak().above(before)
    if taken > bounds.bytes:
        raise Failed(f"takes {taken >> 20} MiB; expected {bounds.bytes >> 20} at most")
    return found


def limit_address_space(more_bytes: int) -> None:
    """A process that asks for far too much gets a MemoryError, rather than the memory of the machine."""
    size = int(_STATUS.read_text().partition("VmSize:")[2].split(maxsplit=1)[0]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (size + more_bytes, resource.RLIM_INFINITY))
