"""`python -m tests.proof.corpora FORMAT=FOLDER …`: every file below the folder that has the format's extension.

Prints a table, and each file that is neither equal nor refused with a reason. Exit status 1 if there is one.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from tests.proof.corpora.reading import read
from tests.proof.corpora.references import REFERENCES, NoReference, comparable

EQUAL, REFUSED, BOTH_REFUSE = "equal", "refused by Blizzard alone", "refused by both"
READ, WRONG = "read by Blizzard alone", "wrong"


def main(words: Sequence[str]) -> int:
    wrong = 0
    print("| format | files | equal | rows | refused by both | refused by Blizzard alone | read by Blizzard alone |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for word in words:
        name, _, folder = word.partition("=")
        if name not in REFERENCES or not Path(folder).is_dir():
            print(f"expected FORMAT=FOLDER with one of {', '.join(REFERENCES)}, found {word}", file=sys.stderr)
            return 2
        files = sorted(file for file in Path(folder).rglob(f"*.{name}") if file.is_file())
        tally, rows = Counter[str](), 0
        for file in files:
            verdict, found = judge(name, file.read_bytes(), str(file.relative_to(folder)))
            tally[verdict] += 1
            rows += found
        counts = (tally[EQUAL], rows, tally[BOTH_REFUSE], tally[REFUSED], tally[READ])
        print(f"| {name} | {len(files)} | " + " | ".join(f"{count:,}" for count in counts) + " |")
        wrong += tally[WRONG]
    return 1 if wrong else 0


def judge(name: str, data: bytes, shown: str) -> tuple[str, int]:
    """The verdict, and the rows that were compared."""
    try:
        reference = REFERENCES[name](data)
    except NoReference as without:
        return _without_reference(name, data, shown, without), 0
    try:
        found = read(name, reference.schema, data, {})
    except Exception:  # noqa: BLE001 - these are looked for
        traceback.print_exc()
        return _wrong(shown, "an exception that is no FileFault"), 0
    if found.fault is not None:
        print(f"refused: {shown}: {found.fault}", file=sys.stderr)
        return REFUSED, 0
    if found.records != reference.count:
        return _wrong(shown, f"{found.records} records, expected {reference.count}"), 0
    rows = None if reference.rows is None or found.refused else comparable(reference.rows)
    if rows is not None and comparable(found.rows) != rows:
        return _wrong(shown, "other values than the reference"), 0
    return EQUAL, len(found.rows)


def _without_reference(name: str, data: bytes, shown: str, why: NoReference) -> str:
    """Of a file that the other reader refuses: a schema that no file fits shows whether Blizzard does, too."""
    try:
        found = read(name, StructType([StructField("nothing like it", StringType())]), data, {})
    except Exception:  # noqa: BLE001 - these are looked for
        traceback.print_exc()
        return _wrong(shown, "an exception that is no FileFault")
    if found.fault is None and found.rows:
        print(f"read: {shown}: {found.records} records; the other reader: {why}", file=sys.stderr)
        return READ
    return BOTH_REFUSE


def _wrong(shown: str, what: str) -> str:
    print(f"WRONG: {shown}: {what}", file=sys.stderr)
    return WRONG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
