"""What tests of S3 faults share."""

from dataclasses import dataclass, field

from blizzard.storage.base import ObjectStore
from tests.fixtures_faulty_s3 import Fault, refusing, resetting

ATTEMPTS = 4
FAULTS: dict[str, Fault] = {
    "throttled": refusing(503, "SlowDown"),
    "internal error": refusing(500, "InternalError"),
    "no words": refusing(502, ""),
    "reset": resetting,
}


@dataclass
class Events:
    """A log that keeps its events."""

    seen: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, event: str, /, **fields: object) -> None:
        self.seen.append((event, fields))


def read_all(store: ObjectStore, key: str) -> bytes:
    with store.open(key) as reader:
        return reader.read()
