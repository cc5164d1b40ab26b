"""The names of a file's columns, and whether a file with them can be ingested at all."""

from collections import Counter
from collections.abc import Sequence

from pyspark.sql.types import StructType

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault

MAX_COLUMNS = 20_000
"""Of a file. Each costs memory in every block, whether a column of the table is for it or not."""
_SHOWN_NAMES = 5


def check_header(names: Sequence[str], spelled: Sequence[str], schema: StructType) -> None:
    """`spelled`: the names as the schema spells them. Raises FileFault if one name occurs twice, if a column that is
    NOT NULL is missing, or if all are. Several columns may have no name: spreadsheets write delimiters at the ends of
    lines."""
    if len(names) > MAX_COLUMNS:
        raise FileFault(Stage.PARSE, f"it has {len(names):,} columns; expected at most {MAX_COLUMNS:,}")
    if (why := repeated(names)) is not None:
        raise FileFault(Stage.PARSE, why)
    missing = [field.name for field in schema if not field.nullable and field.name not in spelled]
    if missing:
        raise FileFault(Stage.PARSE, f"{missing[0]}: NOT NULL, but the file has no such column; {_has(names)}")
    if not any(name in spelled for name in schema.names):
        raise FileFault(Stage.PARSE, f"it has none of the schema's columns; {_has(names)}")


def repeated(names: Sequence[str]) -> str | None:
    """Why a file with these columns cannot be read, if a name occurs twice."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    return f"it has the column {twice[0]!r} twice" if twice else None


def named(names: Sequence[str]) -> tuple[str, ...]:
    """With a name for each column that has none: `_c2` for the third."""
    found, taken = list[str](), {*names}
    for at, name in enumerate(names):
        new = name or f"_c{at}"
        while not name and new in taken:
            new = f"_{new}"
        taken.add(new)
        found.append(new)
    return tuple(found)


def _has(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name:.100}" for name in names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"it has {shown}{f' and {more} more' if more > 0 else ''}" if names else "it has no columns"
