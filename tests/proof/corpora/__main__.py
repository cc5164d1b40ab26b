"""`python -m tests.proof.corpora NAME=CLONE …`: the files of a corpus of `pinned.py`, by a clone of its repository; or
`FORMAT=FOLDER`: every file below the folder that has the format's extension.

Prints a table, and each file that is neither equal nor refused with a reason. Exit status 1 if there is one.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from tests.proof.corpora.pinned import CORPORA
from tests.proof.corpora.reading import Read, read
from tests.proof.corpora.references import REFERENCES, NoReference, Reference, comparable

EQUAL, REFUSED, BOTH_REFUSE = "equal", "refused by Blizzard alone", "refused by both"
READ, WRONG = "read by Blizzard alone", "wrong"
_OPTIONS = {"xml": {"row_tag": "row"}}
"""Of a file of which the other reader says nothing."""


def main(words: Sequence[str]) -> int:
    wrong = 0
    print("| corpus | files | equal | rows | refused by both | refused by Blizzard alone | read by Blizzard alone |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for word in words:
        name, _, place = word.partition("=")
        if name not in {*REFERENCES, *CORPORA} or not Path(place).is_dir():
            known = ", ".join([*CORPORA, *REFERENCES])
            print(f"expected NAME=FOLDER with one of {known}, found {word}", file=sys.stderr)
            return 2
        try:
            wrong += _compare(name, Path(place))
        except LookupError as error:
            print(error, file=sys.stderr)
            return 2
    return 1 if wrong else 0


def _compare(name: str, place: Path) -> int:
    """How many are wrong. Raises LookupError for a clone without the commit."""
    tally, rows, count = Counter[str](), 0, 0
    corpus = CORPORA.get(name)
    for path, data in _below(name, place) if corpus is None else corpus.files(place):
        if data is None:
            print(f"not in the clone: {path}", file=sys.stderr)
            continue
        count += 1
        verdict, found = judge(name if corpus is None else corpus.format, data, path)
        tally[verdict] += 1
        rows += found
    shown = (count, tally[EQUAL], rows, tally[BOTH_REFUSE], tally[REFUSED], tally[READ])
    print(f"| {name} | " + " | ".join(f"{number:,}" for number in shown) + " |")
    return tally[WRONG]


def _below(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob(f"*.{name}")):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


def judge(name: str, data: bytes, shown: str) -> tuple[str, int]:
    """The verdict, and the rows that were compared."""
    try:
        reference = REFERENCES[name](data)
    except NoReference as without:
        return _without_reference(name, data, shown, without), 0
    try:
        found = read(name, reference.schema, data, reference.options)
    except Exception:  # noqa: BLE001 - these are looked for
        traceback.print_exc()
        return _wrong(shown, "an exception that is no FileFault"), 0
    if found.fault is not None:
        print(f"refused: {shown}: {found.fault}", file=sys.stderr)
        return REFUSED, 0
    why = _difference(reference, found)
    return (_wrong(shown, why), 0) if why else (EQUAL, len(found.rows))


def _difference(reference: Reference, found: Read) -> str:
    """Empty: none."""
    if found.records != reference.count:
        return f"{found.records} records, expected {reference.count}"
    if None in found.refused:  # left to Spark
        return ""
    if reference.refused is not None and len(found.refused) != reference.refused:
        return f"{len(found.refused)} records are refused, expected {reference.refused}"
    if reference.rows is None or len(found.refused) != (reference.refused or 0):
        return ""
    return "" if comparable(found.rows) == comparable(reference.rows) else "other values than the reference"


def _without_reference(name: str, data: bytes, shown: str, why: NoReference) -> str:
    """Of a file that the other reader refuses: a schema that no file fits shows whether Blizzard does, too."""
    try:
        nothing = StructType([StructField("nothing like it", StringType())])
        found = read(name, nothing, data, _OPTIONS.get(name, {}))
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
