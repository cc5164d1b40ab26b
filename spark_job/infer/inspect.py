"""Looks at a folder or bucket, and finds a configuration for it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blizzard.config.format_options import CsvOptions, JsonOptions, XmlOptions
from blizzard.errors import NotFound
from blizzard.infer.budget import MAX_GROUPS, Budget
from blizzard.infer.choice import chosen
from blizzard.infer.findings import FilesLeftOut, Findings, SourceFound
from blizzard.infer.groups import Group, grouped, is_hidden
from blizzard.infer.listing import Listing, list_names
from blizzard.infer.own_names import named
from blizzard.infer.storable import no_column
from blizzard.paths.pattern import Pattern
from blizzard.storage.base import ObjectStore
from spark_job.formats.protocol import FileFault
from spark_job.infer.csv_options import options_of
from spark_job.infer.datasets import OWN_SCHEMA, Looked, divided
from spark_job.infer.describe import Place, pipelines_of
from spark_job.infer.heads import Head, read_heads, unreadable
from spark_job.infer.longer_heads import LongerHeads, lacks_records, longest
from spark_job.infer.observe import Reading, observe_heads
from spark_job.infer.sniff import Sniffed, no_record, sniff

DELTA_LOG = "_delta_log/"


class CannotTell(Exception):
    """Nothing can be proposed; the text is a sentence."""


class Inspection:
    """`now_ts`: Unix seconds. `tell` is told how far it is: `reading` so many `files` with a `suffix`. `is_table`:
    whether there is a table at a URI."""

    def __init__(
        self,
        store: ObjectStore,
        place: Place,
        budget: Budget,
        now_ts: float,
        tell: Callable[..., None],
        *,
        is_table: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._place = place
        self._budget = budget
        self._now_ts = now_ts
        self._tell = tell
        self._is_table = is_table
        self._left_out = list[FilesLeftOut]()
        self._longer = LongerHeads(store)

    def findings(self) -> Findings:
        """Raises CannotTell, and what storage raises."""
        listing = list_names(self._store, self._now_ts)
        groups = self._groups(listing)
        looked = [found for group in groups if (found := self._look_at(group, len(groups))) is not None]
        if not looked:
            raise CannotTell(_nothing_readable(self._place.uri, self._left_out))
        parts = divided(looked)
        self._left_out += [_left_out(one.group, why) for one, why in parts.left_out]
        return Findings(
            uri=self._place.uri,
            table_uri=self._place.table_uri,
            files=len(listing.files),
            bytes=sum(info.size for info in listing.files),
            is_whole=listing.is_whole,
            requests=listing.requests,
            pipelines=[
                replace(
                    pipeline,
                    sources=[self._warned(source) for source in pipeline.sources],
                    exists=self._is_table(pipeline.table_uri),
                )
                for pipeline in pipelines_of(parts.tables, self._place, self._now_ts, is_whole=listing.is_whole)
            ],
            left_out=self._left_out,
        )

    def _warned(self, source: SourceFound) -> SourceFound:
        """With a note for each kind of files that its pattern matches although they cannot be read."""
        pattern, place = Pattern(source.pattern), source.uri.removeprefix(self._place.uri)
        notes = [
            f"the pattern also matches files such as {one.example} ({one.why}), which will be dead letters"
            for one in self._left_out
            if one.example.startswith(place) and pattern.matches(one.example.removeprefix(place))
        ]
        return replace(source, notes=[*source.notes, *notes])

    def _groups(self, listing: Listing) -> Sequence[Group]:
        if any(info.key.startswith(DELTA_LOG) or f"/{DELTA_LOG}" in info.key for info in listing.files):
            raise CannotTell(
                f"{self._place.uri} is a Delta table, or has one inside: it has files in {DELTA_LOG}; name the folder "
                "where files land"
            )
        if not listing.files:
            raise CannotTell(f"{self._place.uri}: there is no file; upload some, or name the folder that has them")
        hidden = [info for info in listing.files if is_hidden(info.key)]
        if hidden:
            self._left_out.append(FilesLeftOut(len(hidden), hidden[0].key, "hidden: names that begin with _ or ."))
        groups = grouped(listing.files)
        for group in groups[MAX_GROUPS:]:
            self._left_out.append(_left_out(group, f"only the {MAX_GROUPS} largest groups of files were looked at"))
        return groups[:MAX_GROUPS]

    def _look_at(self, group: Group, groups: int) -> Looked | None:
        """None if no source can read its files; `left_out` says why."""
        files = chosen(group.files, self._budget.of_groups(groups))
        self._tell(reading=len(files), files=len(group.files), suffix=group.suffix)
        each = self._budget.of_file(groups, len(files))
        heads, faults = list[Head](), dict[str, str]()
        for info in files:
            try:
                heads += read_heads(self._store, info, each)
            except FileFault as fault:
                faults[info.key] = unreadable(fault)
            except NotFound:
                continue
        looked = self._tried(group, heads)
        if isinstance(looked, Sniffed) and looked.is_cut:
            looked = self._tried_longer(group, heads, looked)
        if isinstance(looked, Sniffed):
            self._left_out.append(_left_out(group, looked.what or next(iter(faults.values()), "empty")))
            return None
        looked.sample.faults |= faults
        return looked

    def _tried_longer(self, group: Group, heads: Sequence[Head], found: Sniffed) -> Looked | Sniffed:
        for more in self._longer.of(heads):
            looked = self._tried(group, more)
            if isinstance(looked, Looked):
                looked.notes.append(
                    f"records are long: only {looked.sample.files} files were looked into, of which up to "
                    f"{max(len(head.data) for head in more):,} bytes were read"
                )
                return looked
            found = looked if looked.is_cut else found
        return found

    def _tried(self, group: Group, heads: Sequence[Head]) -> Looked | Sniffed:
        """What they are, if no record of them can be read."""
        sniffed = [(head, sniff(head)) for head in heads]
        known = [(head, found) for head, found in sniffed if found.format is not None]
        cut = [head for head, found in sniffed if found.is_cut]
        if not known:
            return next((found for _, found in sniffed if found.is_cut or not cut), Sniffed(None))
        looked = self._read(group, known)
        looked.opened = _files(heads)
        if lacks_records(looked.sample.observed, heads, looked.reading.format) and not looked.sample.faults:
            return Sniffed(None, no_record(longest(heads)), is_cut=True)
        if why := _no_column(looked):
            return Sniffed(None, why)
        if others := [head.info.key for head, found in sniffed if found.format is None and not found.is_cut]:
            looked.notes.append(f"{len(others)} of {len(heads)} files are of another kind, such as {others[0]}")
        if cut:
            looked.notes.append(
                f"of {len(cut)} of {len(heads)} files, such as {cut[0].info.key}, no record was seen: none ends within "
                f"the first {longest(cut):,} bytes"
            )
        return looked

    def _read(self, group: Group, known: Sequence[tuple[Head, Sniffed]]) -> Looked:
        kinds = Counter(_kind(found) for _, found in known)
        usual = _joined_kind(kinds)
        same = [(head, found) for head, found in known if _kind(found) in usual]
        name = "json" if len(usual) > 1 else next(iter(usual))
        heads = [head for head, _ in same]
        notes = list[str]()
        if len(same) < len(known):
            notes.append(f"{len(known) - len(same)} of {len(known)} files seem to be of another format than {name}")
        options, full, why, alike = _options(name, same, notes)
        compression = _compression(group, heads, notes)
        reading = Reading(name, full, compression)
        sample = observe_heads(self._store, alike, reading)
        return Looked(group, reading, options, sample, notes, alike=_files(heads), why=why)


def _no_column(looked: Looked) -> str:
    """Why nothing of the records can be in a table; empty if something can."""
    sample, observed = looked.sample, looked.sample.observed
    found = named(observed.keys(), is_typed=observed.is_typed, may_rename=looked.may_rename).columns
    if looked.reading.format in OWN_SCHEMA or found.schema.columns:
        return ""
    fields = [(one.path, one.why) for one in found.left_out]
    fields += [(name, f"no column can hold `{name}`: {kind}") for name, kind in sample.without.items()]
    faults = [f"cannot be read: {why}" for why in sample.faults.values()]
    return no_column(fields) if fields else next(iter(faults), "no record was seen in them")


def _kind(found: Sniffed) -> str:
    return str(found.format)


def _joined_kind(kinds: Counter[str]) -> set[str]:
    """The most frequent format. Objects one a line, and arrays of them, are both read as `json`."""
    if {*kinds} >= {"ndjson", "json"}:
        return {"ndjson", "json"}
    return {kinds.most_common(1)[0][0]}


def _options(
    name: str, same: Sequence[tuple[Head, Sniffed]], notes: list[str]
) -> tuple[dict[str, Any], dict[str, Any], Mapping[str, str], Sequence[Head]]:
    """Those that are not the default, all, what the files show for each of the former, and the files that they suit."""
    heads = [head for head, _ in same]
    match name:
        case "csv":
            known = [(head, found, found.dialect) for head, found in same if found.dialect is not None]
            found = options_of(
                [head for head, _, _ in known],
                [dialect for _, _, dialect in known],
                [str(one.options["encoding"]) for _, one, _ in known],
            )
            notes += found.notes
            return dict(found.options), CsvOptions(**found.options).model_dump(mode="json"), found.why, found.alike
        case "json":
            paths = Counter(str(found.options["records"]) for _, found in same if "records" in found.options)
            path = paths.most_common(1)[0][0] if paths else None
            options = {} if path is None else {"records": path}
            why = {"records": f"the array in {paths[path]} of {len(same)} files"} if path is not None else {}
            return options, JsonOptions(records=path).model_dump(mode="json"), why, heads
        case "xml":
            tags = Counter(str(found.options["row_tag"]) for _, found in same)
            [(tag, count)] = tags.most_common(1)
            why = {"row_tag": f"the most frequent element of {count} of {len(same)} files"}
            return {"row_tag": tag}, XmlOptions(row_tag=tag).model_dump(mode="json"), why, heads
    return {}, {}, {}, heads


def _compression(group: Group, heads: Sequence[Head], notes: list[str]) -> str:
    """`auto` if the extensions are right."""
    wrong = [head for head in heads if not head.by_extension]
    if not wrong:
        return "auto"
    usual = Counter(head.compression for head in heads).most_common(1)[0][0]
    notes.append(f"the extension says another compression than the content of {len(wrong)} of {len(heads)} files")
    return usual


def _files(heads: Sequence[Head]) -> int:
    """A zip has several heads."""
    return len({head.info.key for head in heads})


def _left_out(group: Group, why: str) -> FilesLeftOut:
    return FilesLeftOut(len(group.files), min(info.key for info in group.files), why)


def _nothing_readable(uri: str, left_out: Sequence[FilesLeftOut]) -> str:
    shown = "; ".join(f"{one.example}: {one.why}" for one in left_out[:3])
    return f"{uri}: no file has a format that Blizzard reads, or a record that it can tell ({shown})"
