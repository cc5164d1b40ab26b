"""From groups of files, as they were looked into, to sources and tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from blizzard.infer.groups import Group
from spark_job.infer.observe import Reading, Sample

_ALIKE = 0.5
"""Share of columns that two groups must have in common for one table."""
OWN_SCHEMA = ("text", "binary")


@dataclass(slots=True)
class Looked:
    """One group with how its files are read. `options`: those that are not the default; `why`: what the files show for
    each. `alike`: how many of the `opened` files are of this format."""

    group: Group
    reading: Reading
    options: dict[str, object]
    sample: Sample
    notes: list[str] = field(default_factory=list)
    alike: int = 0
    opened: int = 0
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def may_rename(self) -> bool:
        """Whether its source can have `fields`."""
        return self.reading.format not in OWN_SCHEMA and self.reading.options.get("header") is not False

    @property
    def names(self) -> set[str]:
        """Of the fields of its records."""
        return {column.name.lower() for column in self.sample.observed.keys().columns}


@dataclass(slots=True)
class Dataset:
    """The groups of one source. `place`: its folder below what was looked at; empty for all of it."""

    place: str
    groups: list[Looked]

    @property
    def own_schema(self) -> str | None:
        """The format, of text and binary, which have schemas of their own."""
        found = self.groups[0].reading.format
        return found if found in OWN_SCHEMA else None

    @property
    def may_rename(self) -> bool:
        return all(looked.may_rename for looked in self.groups)

    @property
    def names(self) -> set[str]:
        return {name for looked in self.groups for name in looked.names}

    @property
    def bytes(self) -> int:
        return sum(looked.group.bytes for looked in self.groups)


@dataclass(frozen=True, slots=True)
class Divided:
    """`tables`: the sources of each table. `left_out`: groups that cannot be in the same source as others, with the
    reason."""

    tables: Sequence[Sequence[Dataset]]
    left_out: Sequence[tuple[Looked, str]]


def divided(found: Sequence[Looked]) -> Divided:
    """Files that share a folder are one source, since sources may not overlap. Folders whose files are alike are one
    source, too; if they are not, each folder is a source, and those that are alike feed one table."""
    places = {looked.group.place for looked in found}
    if "" in places or len(places) == 1:
        kept, out = _of_one_kind(found)
        return Divided([[Dataset("", kept)]], out)
    datasets, left_out = list[Dataset](), list[tuple[Looked, str]]()
    for place in dict.fromkeys(looked.group.place for looked in found):
        kept, out = _of_one_kind([looked for looked in found if looked.group.place == place])
        datasets.append(Dataset(place, kept))
        left_out += out
    tables = list[list[Dataset]]()
    for dataset in datasets:
        same = next((table for table in tables if _alike(table[0], dataset)), None)
        if same is None:
            tables.append([dataset])
        else:
            same.append(dataset)
    return Divided([_joined(table) if len(tables) == 1 else table for table in tables], left_out)


def _of_one_kind(found: Sequence[Looked]) -> tuple[list[Looked], list[tuple[Looked, str]]]:
    """Files with a schema of their own cannot share a source with others. Records are preferred to text, and text to
    bytes."""
    for kinds in ({looked.reading.format for looked in found} - {*OWN_SCHEMA}, {"text"}, {"binary"}):
        if kept := [looked for looked in found if looked.reading.format in kinds]:
            others = [looked for looked in found if looked not in kept]
            why = "cannot share a source, or a table, with the files of records in the same folder"
            return kept, [(looked, f"{looked.reading.format}, which {why}") for looked in others]
    return [], []


def _alike(one: Dataset, other: Dataset) -> bool:
    if one.own_schema or other.own_schema:
        return one.own_schema == other.own_schema
    ours, theirs = one.names, other.names
    return len(ours & theirs) >= _ALIKE * max(1, min(len(ours), len(theirs)))


def _joined(table: Sequence[Dataset]) -> list[Dataset]:
    """As one source of all folders."""
    return [Dataset("", [looked for dataset in table for looked in dataset.groups])]


def merged_sample(groups: Iterable[Looked]) -> Sample:
    sample = Sample()
    for looked in groups:
        sample.join(looked.sample)
    return sample
