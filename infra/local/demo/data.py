"""The files that the demo drops: generated NDJSON, some other formats, and one file of each kind of problem."""

import csv
import gzip
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

RECORDS = 200
FILES_PER_PARTITION = 25
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Drop:
    """One object to put. `events`: how often its event reaches the queue (0: lost, 2: duplicated)."""

    path: str
    body: bytes
    what: str
    events: int = 1


def first_wave(now_ts: float, seed: int) -> list[Drop]:
    """Several partitions at once, with names out of order."""
    rng = random.Random(seed)
    drops = [
        Drop(f"{_folder(now_ts, day)}/{_name(now_ts, number, rng)}", _body(rng), "plain")
        for day in range(PARTITIONS)
        for number in range(FILES_PER_PARTITION)
    ]
    rng.shuffle(drops)
    return drops


def second_wave(now_ts: float, seed: int) -> Iterator[Drop]:
    """One file of each kind of problem, then more good files."""
    rng = random.Random(seed + 1)
    today, old = _folder(now_ts, 0), _folder(now_ts, 40)
    yield Drop(f"{today}/{_name(now_ts, 900, rng)}", _body(rng), "its event comes twice", events=2)
    yield Drop(f"{today}/{_name(now_ts, 901, rng)}", _body(rng), "its event is withheld", events=0)
    yield Drop(f"{today}/{_name(now_ts, 902, rng)}", _body(rng)[:-300], "truncated gzip")
    yield Drop(f"{today}/{_name(now_ts, 903, rng)}", _body(rng, broken=3), "three broken lines")
    yield Drop(f"{old}/{_name(now_ts, 904, rng)}", _body(rng), "dropped into an old partition")
    yield Drop(f"{today}/a key + 100% é.ndjson.gz", _body(rng), "a key with a space, +, % and é")
    yield Drop(f"{today}/{_name(now_ts, 905, rng, 'csv')}", _csv(rng), "CSV, with one broken row")
    yield Drop(f"{today}/{_name(now_ts, 906, rng, 'json')}", _json(rng), "a JSON array")
    yield Drop(f"{today}/{_name(now_ts, 907, rng, 'parquet')}", _parquet(rng), "Parquet")
    yield Drop(f"{today}/{_name(now_ts, 908, rng)}", _body(rng, unit="°C"), "its producer has added a field, unit")
    yield Drop(f"{today}/{_name(now_ts, 909, rng)}", _body(rng, value="n/a"), "its producer sends text for value")
    yield Drop(f"{today}/000-sorts-first.ndjson.gz", _body(rng), "a name below the watermark")
    for number in range(910, 920):
        yield Drop(f"{_folder(now_ts, number % PARTITIONS)}/{_name(now_ts, number, rng)}", _body(rng), "plain")


def _folder(now_ts: float, days_ago: int) -> str:
    return f"date={datetime.fromtimestamp(now_ts, UTC) - timedelta(days=days_ago):%Y-%m-%d}"


def _name(now_ts: float, number: int, rng: random.Random, extension: str = "ndjson.gz") -> str:
    return f"{int(now_ts) + number}-{rng.randrange(16**8):08x}.{extension}"


def _body(rng: random.Random, broken: int = 0, **changed: object) -> bytes:
    """`changed`: fields that every record has in place of its own."""
    lines = [json.dumps({**_record(rng), **changed}) for _ in range(RECORDS)]
    for _ in range(broken):
        lines.insert(rng.randrange(len(lines)), '{"id": "cut off in the mid')
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def _csv(rng: random.Random) -> bytes:
    out = io.StringIO(newline="")
    records = [_record(rng) for _ in range(RECORDS)]
    writer = csv.DictWriter(out, ["payload", "id", "value", "timestamp"], quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(records[:-1])
    out.write('"cut off","in the mid"\r\n')
    writer.writerow(records[-1])
    return out.getvalue().encode()


def _json(rng: random.Random) -> bytes:
    return json.dumps([_record(rng) for _ in range(RECORDS)], indent=1).encode()


def _parquet(rng: random.Random) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([_record(rng) for _ in range(RECORDS)]), out, row_group_size=RECORDS // 2)
    return out.getvalue()


def _record(rng: random.Random) -> dict[str, object]:
    return {
        "id": f"{rng.randrange(16**16):016x}",
        "timestamp": 1_700_000_000 + rng.randrange(10**7),
        "value": rng.random() * 100,
        "payload": rng.choice(["ok", "warm", "cold", "über", "日本"]) * 4,
    }
