"""Deletion vectors, as Spark deletes rows from tables with this feature: the data file stays as it is."""

import json
import struct

from blizzard.state.delta_log import commit_key
from tests.unit.operator_world import OperatorWorld

FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


def delete_by_vector(world: OperatorWorld, *, row: int) -> None:
    """By its number in the data file of the table's first commit."""
    lines = (world.lake / commit_key(0)).read_text().splitlines()
    (add,) = (json.loads(line)["add"] for line in lines if '"add"' in line)
    roaring = struct.pack("<iihhih", 12346, 1, 0, 0, 16, row)  # one container, with one row
    vector = struct.pack("<iqi", 1681511377, 1, 0) + roaring
    described = {
        "storageType": "i",
        "pathOrInlineDv": z85(vector + bytes(-len(vector) % 4)),
        "sizeInBytes": len(vector),
        "cardinality": 1,
    }
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **FEATURES}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": {**add, "deletionVector": described}},
    ]
    (world.lake / commit_key(world.table().version() + 1)).write_text("\n".join(map(json.dumps, actions)))


def z85(data: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = (int.from_bytes(data[at : at + 4]) for at in range(0, len(data), 4))
    return "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))
