"""The schema registry of a topic with Avro, which does not answer for a while, and what its payloads hold."""

import io
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import fastavro

from tests.unit.schema_registry import Answer, Registry, framed, record_of, refers_to

COLUMNS = "id STRING, n BIGINT, page STRUCT<url: STRING>"
OUTAGES: tuple[Answer, ...] = ((503, b"{}"), (429, b"{}"), (200, b"<html>"))
OUTAGE_SECS = 5.0
UNANSWERED = "requests that the schema registry did not answer"
_ID, _N = {"id": "string"}, {"n": "long"}
_OLD = record_of(_ID | _N, "Click")
_PAGE = record_of({"url": "string"}, "Page")
_NEW = record_of({**_ID, "page": "Page", **_N}, "Click")
_WHOLE_NEW = record_of({**_ID, "page": _PAGE, **_N}, "Click")
_UNKNOWN_ID = 1000


class AvroRegistry:
    """Two schemas, of which one refers to a third, and one that is none of Avro."""

    def __init__(self, registry: Registry, counts: Counter[str]) -> None:
        self._registry, self._counts = registry, counts
        page = registry.add_version("page", _PAGE)
        new = registry.add(_NEW, references=refers_to(page))
        self._schemas = {registry.add(_OLD): _OLD, new: _WHOLE_NEW}
        self._bad_ids = (_UNKNOWN_ID, registry.add({"type": "object"}, schemaType="JSON"))

    @property
    def url(self) -> str:
        return self._registry.url

    def fail(self, rng: random.Random) -> None:
        """For some seconds, which begin with the next request."""
        answer, secs, asked = rng.choice(OUTAGES), rng.uniform(0.5, OUTAGE_SECS), list[float]()

        def answered() -> Answer | None:
            asked.append(time.monotonic())
            if asked[-1] - asked[0] > secs:
                return None
            self._counts[UNANSWERED] += 1
            return answer

        self._registry.answer = answered

    def recover(self) -> None:
        self._registry.answer = None

    def payload(self, mark: str, rng: random.Random) -> bytes:
        """One in five is not as it should be. The mark comes before whatever a cut takes."""
        schema_id, schema = rng.choice([*self._schemas.items()])
        record = {"id": mark, "n": rng.randrange(1 << 30), "page": {"url": f"/{rng.randrange(100)}"}}
        good, bad_id = framed(schema_id, schema, record), framed(rng.choice(self._bad_ids), schema, record)
        bad = (bad_id, good[:-1], good + b"x", b"{" + good)
        return good if rng.random() < 0.8 else rng.choice(bad)

    def record(self, payload: bytes | None) -> Mapping[str, Any] | None:
        """What a payload holds; None: nothing that can be read."""
        if payload is None or payload[:1] != b"\0":
            return None
        schema, file = self._schemas.get(int.from_bytes(payload[1:5], "big")), io.BytesIO(payload[5:])
        if schema is None:
            return None
        try:
            found = fastavro.schemaless_reader(file, schema, None)
        except (EOFError, IndexError):
            return None
        return found if isinstance(found, dict) and not file.read(1) else None
