"""Who brought a change of a table's columns that is a commit of its own, without rows and without a Txn: said in the
commit's `userMetadata`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from blizzard.storage import json_fields

_KEY = "blizzard_columns"


class First(NamedTuple):
    """By which records a schema was inferred: how many, and the first file, or partition of a topic, that has some."""

    records: int
    file: str


@dataclass(frozen=True, slots=True)
class Origin:
    """`source`: `pipeline:source`, whose configuration brought the columns, except for those in `inferred`, which
    records showed."""

    source: str
    first: First | None = None
    inferred: Sequence[str] = ()

    def encode(self) -> str:
        own: dict[str, Any] = {"source": self.source}
        if self.first is not None and self.inferred:
            own |= {"inferred": [*self.inferred], **self.first._asdict()}
        return json.dumps({_KEY: own}, separators=(",", ":"))


def decode(user_metadata: str | None) -> Origin | None:
    """None: another text."""
    try:
        own = json_fields.mapping(json_fields.mapping(json.loads(user_metadata or ""))[_KEY])
        source = json_fields.text(own["source"])
        if "inferred" not in own:
            return Origin(source)
        first = First(json_fields.natural(own["records"]), json_fields.text(own["file"]))
        return Origin(source, first, tuple(map(json_fields.text, json_fields.array(own["inferred"]))))
    except json_fields.MALFORMED:
        return None
