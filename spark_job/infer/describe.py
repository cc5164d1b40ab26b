"""From what was looked at to the pipelines and sources of a configuration."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from blizzard.config.ddl import Array, Struct, Type
from blizzard.config.field_places import in_place
from blizzard.config.schema_limits import mapping_problems
from blizzard.infer.ddl_text import ddl_of, type_ddl
from blizzard.infer.findings import (
    ColumnFound,
    DatedFound,
    LeftOutField,
    PipelineFound,
    RuleFound,
    SourceFound,
)
from blizzard.infer.folders import lookback, partition_columns, time_template
from blizzard.infer.observed import FieldSeen, Observed, is_under
from blizzard.infer.own_names import Named, named
from blizzard.infer.pace import PARTITION_BYTES, intervals, settle_delay
from blizzard.infer.spellings import ignoring_case, spellings
from spark_job.infer.datasets import OWN_SCHEMA, Dataset, Looked, merged_sample
from spark_job.infer.observe import Sample

OF_TEXT = frozenset({"STRING", "DATE", "TIMESTAMP"})
"""Types of values that are text in JSON: a column of texts takes them as they are."""
SPARK = "a run needs Spark, and so Java,"
TIMES = frozenset({"DATE", "TIMESTAMP"})
MARGIN = 7
"""Folders that stay open beyond the oldest one with a file: the first run may be some days away."""
MAX_LOOKBACK = 400


@dataclass(frozen=True, slots=True)
class Place:
    """`uri` ends in `/`."""

    uri: str
    table_uri: str


def pipelines_of(
    tables: Sequence[Sequence[Dataset]], place: Place, now_ts: float, *, is_whole: bool
) -> list[PipelineFound]:
    """With more than one, `table_uri` is the folder of the tables."""
    found = list[PipelineFound]()
    taken = set[str]()
    for datasets in tables:
        base = place.table_uri.rstrip("/").rpartition("/")[2]
        name = _name(base if len(tables) == 1 else datasets[0].place, taken)
        uri = place.table_uri if len(tables) == 1 else f"{place.table_uri.rstrip('/')}/{name}"
        names = set[str]()
        sources = [_source(dataset, place, names, now_ts) for dataset in datasets]
        found.append(_pipeline(name, uri, sources, is_whole=is_whole))
    return found


def _name(text: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:50] or "files"
    name = next(one for one in (plain, *(f"{plain}-{at}" for at in range(2, 1000))) if one.lower() not in taken)
    taken.add(name.lower())
    return name


def _pipeline(name: str, uri: str, sources: Sequence[SourceFound], *, is_whole: bool) -> PipelineFound:
    size, least = sum(source.bytes for source in sources), "" if is_whole else "at least "
    dates = [{column for column, kind in source.partition_columns.items() if kind == "date"} for source in sources]
    shared = sorted(set.intersection(*dates)) if dates else []
    if size >= PARTITION_BYTES and shared:
        note = f"the files have {least}{size:,} bytes, and each folder is a {shared[0]}"
        return PipelineFound(name, uri, shared[:1], sources, (note,))
    note = f"no partition_by: {least}{size:,} bytes are faster to read in one piece"
    if size >= PARTITION_BYTES:
        note = "no partition_by: no folder says the date of its files"
        return PipelineFound(name, uri, (), sources, (note,), _times(sources)[:1])
    return PipelineFound(name, uri, (), sources, (note,))


def _times(sources: Sequence[SourceFound]) -> list[str]:
    """Columns of times that every record of every source had."""
    always = [
        {column.name: column.type for column in source.columns if column.seen == column.records > 0}
        for source in sources
    ]
    return [name for name, kind in always[0].items() if kind in TIMES and all(one.get(name) == kind for one in always)]


def _source(dataset: Dataset, place: Place, names: set[str], now_ts: float) -> SourceFound:
    files = [info for looked in dataset.groups for info in looked.group.files]
    uri = f"{place.uri}{dataset.place}/" if dataset.place else place.uri
    paths = [info.key.removeprefix(f"{dataset.place}/") if dataset.place else info.key for info in files]
    sample = merged_sample(dataset.groups)
    spelled = () if dataset.own_schema else spellings(sample.observed)
    sample.observed = ignoring_case(sample.observed, spelled) if spelled else sample.observed
    found = named(sample.observed.keys(), is_typed=sample.observed.is_typed, may_rename=dataset.may_rename)
    storable = found.columns
    in_folders = partition_columns(paths)
    notes = _notes(dataset, sample, in_folders.incomplete)
    own = {column.name.lower() for column in storable.schema.columns}
    columns = {name: kind for name, kind in in_folders.types.items() if name.lower() not in own and _is_free(name)}
    notes += [_why_no_column(name, own) for name in in_folders.types if name not in columns]
    delay, interval = settle_delay(files), intervals(files)
    return SourceFound(
        name=_name(uri.rstrip("/").rpartition("/")[2] if dataset.place else "landing", names),
        uri=uri,
        pattern=_pattern(dataset),
        rules=_rules(dataset),
        schema="" if dataset.own_schema else ddl_of(storable.schema.columns, with_not_null=False),
        columns=[*_columns(found, sample.observed)],
        spellings=spelled,
        fields={name: in_place(key) for name, key in found.keys.items()},
        left_out=[LeftOutField(one.path, one.why) for one in storable.left_out]
        + [LeftOutField(name, f"no column can hold it: {kind}") for name, kind in sample.without.items()],
        partition_columns=columns,
        dated=_dated(paths, now_ts, notes),
        settle_delay_secs=delay.secs,
        interval_files=interval.files,
        interval_bytes=interval.bytes,
        files=len(files),
        bytes=sum(info.size for info in files),
        looked_at=sample.files,
        records=sample.observed.records,
        broken=sample.observed.broken,
        notes=notes,
        settle_why=delay.why,
        interval_why=interval.why,
    )


def _is_free(name: str) -> bool:
    return bool(name) and not name.startswith("_") and next(mapping_problems(name, name), None) is None


def _why_no_column(name: str, own: Collection[str]) -> str:
    if name.lower() in own:
        return f"`{name}` is in the folders and in the records; that of the records is taken"
    return f"`{name}` of the folders is no column: a table cannot have one of this name from there"


def _columns(found: Named, observed: Observed) -> Iterator[ColumnFound]:
    for column in found.columns.schema.columns:
        yield _column(column.name, found.keys.get(column.name, column.name), column.type, observed)


def _column(name: str, key: str, kind: Type, observed: Observed) -> ColumnFound:
    """`key`: of the records."""
    seen = observed.fields.get(key, FieldSeen())
    inner = {
        path: conflicts
        for path, held in observed.fields.items()
        if is_under(path, key) and (conflicts := held.conflicts())
    }
    conflicts = {
        text if path == key else f"{path} {text}": n for path, found in inner.items() for text, n in found.items()
    }
    ddl = type_ddl(kind, with_not_null=False)
    return ColumnFound(name, ddl, min(seen.values, observed.records), observed.records, seen.examples, conflicts)


def _notes(dataset: Dataset, sample: Sample, incomplete: Sequence[str]) -> list[str]:
    notes = list[str]()
    if sample.observed.broken:
        notes.append(
            f"{sample.observed.broken:,} of {sample.observed.records + sample.observed.broken:,} records that were "
            "looked at are broken and will be dead letters"
        )
    if sample.faults:
        path, why = next(iter(sample.faults.items()))
        notes.append(f"{len(sample.faults)} files cannot be read and will be dead letters, such as {path}: {why}")
    empty = [info.key for looked in dataset.groups for info in looked.group.files if not info.size]
    strict = {looked.reading.format for looked in dataset.groups} - {"ndjson", *OWN_SCHEMA}
    if empty and strict:
        notes.append(f"{len(empty)} files are empty and will be dead letters, such as {empty[0]}")
    notes += [f"`{name}` is only in some folders, so it is no column" for name in incomplete]
    if {looked.reading.format for looked in dataset.groups} & {"ndjson", "json"}:
        mixed = [path for path, seen in sample.observed.fields.items() if seen.conflicts().keys() - OF_TEXT]
        notes += [f"`{path}` has values of several types; {SPARK} for them" for path in mixed]
        empty_ones = _empty_objects(sample.observed.keys(), "")
        notes += [f"`{path}` is an empty object in all records, and so STRING; {SPARK} for it" for path in empty_ones]
    return notes


def _empty_objects(kind: Type, path: str) -> Iterator[str]:
    match kind:
        case Struct(columns):
            if path and not columns:
                yield path
            for column in columns:
                yield from _empty_objects(column.type, f"{path}.{column.name}" if path else column.name)
        case Array(element):
            yield from _empty_objects(element, f"{path}[]")


def _pattern(dataset: Dataset) -> str:
    patterns = list(dict.fromkeys(looked.group.pattern for looked in dataset.groups))
    if len(patterns) == 1:
        return patterns[0]
    suffixes = [looked.group.suffix for looked in dataset.groups]
    if all(suffixes):
        return f"**/*{{{','.join(dict.fromkeys(suffixes))}}}"
    return "**/[!._]*"


def _rules(dataset: Dataset) -> list[RuleFound]:
    """One for all files, if they are read alike."""
    rules: dict[tuple[str, str, str], list[Looked]] = {}
    for looked in dataset.groups:
        key = looked.reading.format, looked.reading.compression, repr(sorted(looked.options.items()))
        rules.setdefault(key, []).append(looked)
    found = [_rule(some, len(rules), dataset) for some in rules.values()]
    return sorted(found, key=lambda rule: rule.pattern.endswith("[!._]*"))


def _rule(some: Sequence[Looked], rules: int, dataset: Dataset) -> RuleFound:
    first = some[0]
    pattern = _pattern(Dataset(dataset.place, [*some]))
    if rules > 1 and len({looked.group.place for looked in dataset.groups}) > 1:
        places = list(dict.fromkeys(looked.group.place for looked in some))
        inside = pattern
        if "" not in places:
            pattern = f"{places[0] if len(places) == 1 else '{' + ','.join(places) + '}'}/{inside}"
    notes = list(dict.fromkeys(note for looked in some for note in looked.notes))
    return RuleFound(
        pattern,
        first.reading.format,
        first.reading.compression,
        first.options,
        notes,
        files=sum(looked.alike for looked in some),
        opened=sum(looked.opened for looked in some),
        why=first.why,
    )


def _dated(paths: Sequence[str], now_ts: float, notes: list[str]) -> DatedFound | None:
    template = time_template(paths)
    if template is None:
        return None
    steps = lookback(template, paths, now_ts) + MARGIN
    if steps <= MAX_LOOKBACK:
        return DatedFound(template, steps)
    notes.append(
        f"the folders are dated as {template}, but the oldest would need lookback: {steps}; once their files are "
        f'ingested, add partition_filter: {{prefix_template: "{template}", lookback: {MARGIN}}}'
    )
    return None
