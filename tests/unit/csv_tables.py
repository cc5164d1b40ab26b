"""CSV files that tests of inference draw, and what is inferred from a file as a source reads it."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from blizzard.config.ddl import Struct
from blizzard.config.format_options import CsvOptions, XmlOptions
from blizzard.storage.local import LocalStore
from spark_job.infer.observe import Reading, observe_files

Table = Mapping[str, Sequence[str]]
"""The fields of each column, of equal number."""

KINDS: Mapping[str, st.SearchStrategy[str]] = {
    "whole": st.integers(-(2**63), 2**63 - 1).map(str),
    "small": st.integers(2, 999).map(str),
    "fraction": st.floats(-(2.0**40), 2.0**40, width=32).map(repr),
    "flag": st.sampled_from(["true", "false", "True"]),
    "day": st.dates().filter(lambda day: day.year > 1000).map(str),
    "moment": st.datetimes().filter(lambda one: one.year > 1000).map(lambda one: one.isoformat(timespec="seconds")),
    "text": st.text("xyzßé", min_size=1, max_size=4),
}
"""Values whose types all readers see alike. The numbers among dates have no four digits, since a reader may take these
for a year; neither 0 nor 1 is among flags, since one takes them for such; and no fraction is so large that it has an
exponent and is a whole number, which one takes for a DECIMAL."""
TOGETHER = [
    *((kind,) for kind in KINDS),
    *((kind, "text") for kind in KINDS if kind != "text"),
    *(("small", other) for other in ("whole", "fraction", "flag", "day", "moment")),
    ("day", "moment"),
    ("flag", "day"),
]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.integers(1, 6))
    found: dict[str, Sequence[str]] = {"row": [f"r{number}" for number in range(rows)]}
    for number in range(draw(st.integers(1, 4))):
        values = st.just("") | st.one_of(*(KINDS[kind] for kind in draw(st.sampled_from(TOGETHER))))
        found[f"c{number}"] = draw(st.lists(values, min_size=rows, max_size=rows))
    return found


def csv_text(table: Table) -> str:
    rows = zip(*table.values(), strict=True)
    return "".join(",".join(row) + "\n" for row in [tuple(table), *rows])


@contextmanager
def file_of(text: str, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text)
        yield file


def inferred(file: Path) -> Struct:
    """By `schema: infer` of a source of such files, CSV with a header or XML with records `o`."""
    options: Mapping[str, Any] = {"csv": CsvOptions(), "xml": XmlOptions(row_tag="o")}
    reading = Reading(file.suffix[1:], options[file.suffix[1:]].model_dump(mode="json"))
    store = LocalStore(file.parent)
    info = store.head(file.name)
    assert info is not None
    return observe_files(store, [info], reading, 1 << 20).observed.schema().schema
