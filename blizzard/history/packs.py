"""The packs of a source's history: which there are, and where. One small object, named by the checkpoint, lists them.

A pack has what the receipts of some commits say, sorted by path. Packs are derived: recovery needs none of them.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from blizzard.errors import UnreadableState
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import SequenceRange
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

FORMAT = 1
_DIGEST_BYTES = 16
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_DIGEST = re.compile(r"[0-9a-f]{32}")
_INDEX_NAME = re.compile(r"(\d{20})-([0-9a-f]{32})\.json\.gz")
_PACK_NAME = re.compile(r"day=\d{4}-\d\d-\d\d/\d{20}-\d{20}-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class PackRef:
    """One pack: an immutable Parquet file with the `files` of the commits `first` through `last`. `day`: that of its
    first commit, in UTC. `footer_at`: where its footer begins, of its `size` in bytes. `digest`: of the footer, which
    has digests of all else. `previous`: the receipt before that of its first commit; None: none, or unknown."""

    first: int
    last: int
    day: str
    files: int
    size: int
    footer_at: int
    digest: str
    previous: str | None

    @property
    def name(self) -> str:
        """Below the folder of the history."""
        return f"day={self.day}/{self.first:020d}-{self.last:020d}-{self.digest}.parquet"

    @property
    def range(self) -> SequenceRange:
        return SequenceRange(self.first, self.last)


def history_folder(identity: SourceIdentity) -> str:
    return f"{identity.state_prefix}/history/"


def digest_of(data: bytes | memoryview) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def is_ours(name: str) -> bool:
    """Whether it may be the name of a pack or of an index. Other files in the folder are somebody else's."""
    return (_PACK_NAME.fullmatch(name) or _INDEX_NAME.fullmatch(name)) is not None


def last_packed(index: str | None) -> int:
    """The newest commit that is in a pack, by the name of the index; -1 if none is."""
    found = None if index is None else _INDEX_NAME.fullmatch(index)
    return -1 if found is None else int(found[1])


def put_packs(store: ObjectStore, identity: SourceIdentity, packs: Iterable[PackRef]) -> str:
    """Writes an index of these packs, at least one. Returns its name, which has a digest of its content."""
    found = sorted(packs)
    document = {"format": FORMAT, "source": identity.source_id, "packs": [asdict(pack) for pack in found]}
    data = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
    name = f"{found[-1].last:020d}-{digest_of(data)}.json.gz"
    store.put(history_folder(identity) + name, data)
    return name


def get_packs(store: ObjectStore, identity: SourceIdentity, index: str) -> Sequence[PackRef]:
    """Ascending. Raises NotFound or UnreadableState."""
    try:
        name = _INDEX_NAME.fullmatch(index)
        if name is None:
            raise ValueError("it is no name of an index")
        data = store.get(history_folder(identity) + index)
        if digest_of(data) != name[2]:
            raise ValueError("its content is not that of its name")
        document = json_fields.mapping(json.loads(gzip.decompress(data)))
        if (document["format"], document["source"]) != (FORMAT, identity.source_id):
            raise ValueError(f"it is of format {document['format']!r:.20} and source {document['source']!r:.80}")
        return [_decoded(json_fields.mapping(pack)) for pack in json_fields.array(document["packs"])]
    except (OSError, EOFError, zlib.error, *json_fields.MALFORMED) as error:
        raise UnreadableState(
            f"the index {index!r:.80} of the packed history cannot be read ({type(error).__name__}: {error!s:.200}). "
            "Nothing is lost: receipts say the same, and a later run packs them again."
        ) from error


def _decoded(document: dict[str, Any]) -> PackRef:
    pack = PackRef(
        first=json_fields.natural(document["first"]),
        last=json_fields.natural(document["last"]),
        day=json_fields.text(document["day"]),
        files=json_fields.natural(document["files"]),
        size=json_fields.natural(document["size"]),
        footer_at=json_fields.natural(document["footer_at"]),
        digest=json_fields.text(document["digest"]),
        previous=json_fields.optional_text(document["previous"]),
    )
    is_named_well = _DAY.fullmatch(pack.day) and _DIGEST.fullmatch(pack.digest)
    if not (is_named_well and pack.first <= pack.last and pack.footer_at < pack.size):
        raise ValueError(f"pack {pack.name!r:.120} contradicts itself")
    return pack
