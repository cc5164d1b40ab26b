"""Bases: the parts of a large checkpoint that grow with the number of partitions, kept outside of the commits.

A commit names its bases and has only what differs from them. A base is itself a difference, from nothing or from the
base before it, so bases and commit are layers.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

from blizzard.errors import UnreadableState
from blizzard.storage import json_fields

V = TypeVar("V")

FINISHED = -1
"""Of a tracked file: the whole file is committed. Any other value is the number of records read so far."""
MAX_LAYERS = 2
"""A base of everything, and one of what has changed since."""
_FORMAT = 1
_NAME = re.compile(r"[0-9]{20}-[A-Za-z0-9_-]+\.json\.gz")
_WHOLE = "-all.json.gz"


@dataclass(frozen=True, slots=True)
class BaseRef:
    """How a checkpoint names a base. `digest`: of the stored bytes, so that a base which is torn, or not the one that
    the checkpoint means, is recognised."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What a base can hold of a checkpoint: `watermarks` by partition, and tracked `files` with their state."""

    watermarks: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.watermarks) + len(self.files)


@dataclass(frozen=True, slots=True)
class Difference:
    """From one state to another: what to set, then the partitions without a watermark and the files that are not
    tracked any more."""

    added: Settled
    removed_partitions: Sequence[str] = ()
    removed_files: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.removed_partitions) + len(self.removed_files)

    @property
    def json_bytes(self) -> int:
        """Its size in a commit."""
        return len(_json(encode_difference(self)))

    def apply_to(self, before: Settled) -> Settled:
        return Settled(
            _applied(before.watermarks, self.added.watermarks, self.removed_partitions),
            _applied(before.files, self.added.files, self.removed_files),
        )


def name_of(sequence: int, attempt: str, *, whole: bool) -> str:
    """The name of a base that the commit `sequence` is to name first; `whole`: it is a difference from nothing."""
    return f"{sequence:020d}-{attempt}{_WHOLE if whole else '-changed.json.gz'}"


def is_whole(name: str) -> bool:
    """Whether a base, by its name, does not need another one below it."""
    return name.endswith(_WHOLE)


BaseOf = Callable[[Sequence[BaseRef]], Settled]
"""Maps bases, oldest first, to what they hold together. Raises UnreadableState."""


def no_base(refs: Sequence[BaseRef]) -> Settled:
    """The BaseOf where there is no storage to read bases from."""
    raise UnreadableState(f"the checkpoint is not complete without base {refs[-1].name}")


def difference(before: Settled, after: Settled) -> Difference:
    """What has to be applied to `before`. In the order of partitions and paths, whatever the order of the maps."""
    watermarks, removed_partitions = _changes(before.watermarks, after.watermarks)
    files, removed_files = _changes(before.files, after.files)
    return Difference(Settled(watermarks, files), removed_partitions, removed_files)


def _changes(before: Mapping[str, V], after: Mapping[str, V]) -> tuple[dict[str, V], list[str]]:
    if before is after:
        return {}, []
    # The views' own operation compares 100,000 partitions in 5 ms, faster than any loop.
    changed = sorted({key for key, _ in before.items() ^ after.items()})
    return {key: after[key] for key in changed if key in after}, [key for key in changed if key not in after]


def _applied(before: Mapping[str, V], added: Mapping[str, V], removed: Sequence[str]) -> dict[str, V]:
    after = dict(before)
    for key in removed:
        after.pop(key, None)
    after.update(added)
    return after


def encode_ref(ref: BaseRef) -> list[str]:
    """As a JSON value."""
    return [ref.name, ref.digest]


def decode_refs(value: object) -> tuple[BaseRef, ...]:
    """Raises one of `json_fields.MALFORMED`."""
    refs = tuple(BaseRef(*map(json_fields.text, json_fields.array(ref))) for ref in json_fields.array(value))
    if not (1 <= len(refs) <= MAX_LAYERS and all(_NAME.fullmatch(ref.name) for ref in refs)):
        raise ValueError(f"the bases are {value!r:.200}")
    return refs


def encode_difference(change: Difference) -> dict[str, Any]:
    """The fields of a JSON object."""
    return {
        "partition_watermarks": dict(change.added.watermarks),
        "removed_partitions": [*change.removed_partitions],
        "source_state": encode_files(change.added.files),
        "removed_files": [*change.removed_files],
    }


def decode_difference(document: Mapping[str, Any]) -> Difference:
    """Raises one of `json_fields.MALFORMED`."""
    return Difference(
        Settled(decode_watermarks(document["partition_watermarks"]), decode_files(document["source_state"])),
        [*map(json_fields.text, json_fields.array(document["removed_partitions"]))],
        [*map(json_fields.text, json_fields.array(document["removed_files"]))],
    )


def decode_watermarks(value: object) -> dict[str, str]:
    """Raises one of `json_fields.MALFORMED`."""
    return {json_fields.text(name): json_fields.text(mark) for name, mark in json_fields.mapping(value).items()}


def encode_files(files: Mapping[str, int]) -> dict[str, Any]:
    return {"files": {path: "Finished" if read == FINISHED else {"RecordsRead": read} for path, read in files.items()}}


def decode_files(source_state: Any) -> dict[str, int]:
    """Raises one of `json_fields.MALFORMED`."""
    return {json_fields.text(path): _read_state(value) for path, value in source_state["files"].items()}


def _read_state(value: object) -> int:
    if value is None or value == "Finished":  # the first Blizzard wrote a set: null for each file
        return FINISHED
    if isinstance(value, dict) and set(value) == {"RecordsRead"}:
        return json_fields.natural(value["RecordsRead"])
    raise ValueError(f"a file's state is {value!r:.80}; expected Finished or RecordsRead")


def encode_base(change: Difference, source_id: str) -> bytes:
    document = {"format": _FORMAT, "source": source_id, **encode_difference(change)}
    return gzip.compress(_json(document).encode(), compresslevel=1, mtime=0)


def decode_base(data: bytes, ref: BaseRef, source_id: str) -> Difference:
    """Raises UnreadableState, also for a base of another source."""
    if digest(data) != ref.digest:
        raise UnreadableState(f"base {ref.name} is not the one that the checkpoint names, or it is damaged")
    try:
        document = json_fields.mapping(json.loads(gzip.decompress(data)))
        if (document["format"], document["source"]) != (_FORMAT, source_id):
            raise ValueError(f"it has format {document['format']!r:.20} and belongs to {document['source']!r:.80}")
        return decode_difference(document)
    except (OSError, EOFError, zlib.error, *json_fields.MALFORMED) as error:
        raise UnreadableState(f"base {ref.name} cannot be read ({type(error).__name__}: {error!s:.200})") from error


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
