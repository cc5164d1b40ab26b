"""The results that the documents show: kept as JSON beside them, and the documents written anew from there.

`docs/performance.json` is what `--json` wrote, without lists of single commits, files or events. `docs/performance.md`,
`docs/sizing.md` and the picture are written from it, between marks.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.chart import chart
from benchmarks.report import as_markdown
from benchmarks.result import Result
from benchmarks.sizing import as_driver, as_sizing
from benchmarks.suite import BENCHMARKS
from benchmarks.summary import as_summary

LONGEST = 30
"""Items of a list that is kept: rounds, not single events."""
Machine = Mapping[str, Any]
Shown = Callable[[Machine, Sequence[Result]], str]
PAGE: Mapping[str, Shown] = {"figures of the benchmarks": as_summary, "what came out": as_markdown}
SIZING: Mapping[str, Shown] = {"how large a job has to be": as_sizing, "the driver's share": as_driver}
END = "<!-- end of what was measured -->\n"


class CannotPublish(Exception):
    """Results that no document may show, or a document without the marks."""


@dataclass(frozen=True, slots=True)
class Documents:
    """What is written from the JSON file, by its place."""

    json: Path

    @property
    def page(self) -> Path:
        return self.json.with_suffix(".md")

    @property
    def sizing(self) -> Path:
        return self.json.with_name("sizing.md")

    @property
    def picture(self) -> Path:
        return self.json.with_suffix(".svg")


def read_results(results_file: Path) -> tuple[dict[str, Any], list[Result]]:
    """What `--json` wrote; each result with the cores that it had."""
    document = json.loads(results_file.read_text())
    machine = document["machine"]
    results = (Result.from_json(one) for one in document["benchmarks"])
    return machine, [replace(one, cores=one.cores or machine["cores"]) for one in results]


def as_json(machine: Machine, results: Sequence[Result]) -> str:
    """As `written` reads it."""
    return json.dumps({"machine": machine, "benchmarks": [result.to_json() for result in results]}, indent=1) + "\n"


def merge_results(parts: Sequence[tuple[Machine, Sequence[Result]]]) -> tuple[Machine, list[Result]]:
    """Results of one machine; a later one takes the place of an earlier one of the same benchmark on as many cores.
    Raises CannotPublish."""
    machine = parts[0][0]
    for other, _ in parts[1:]:
        if other != machine:
            raise CannotPublish(f"expected results of one machine with the same versions, found {machine} and {other}")
    every = (replace(one, cores=one.cores or machine["cores"]) for _, results in parts for one in results)
    found = {(one.name, one.cores): one for one in every}
    return machine, sorted(found.values(), key=lambda one: (BENCHMARKS.index(one.name), -one.cores))


def without_long_lists(value: Any) -> Any:
    """Without long lists: how many items they had."""
    if isinstance(value, Mapping):
        return {name: without_long_lists(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return {"left out": len(value)} if len(value) > LONGEST else [without_long_lists(each) for each in value]
    return value


def publish(place: Documents, machine: Machine, results: Sequence[Result]) -> None:
    """Write all of them. Raises CannotPublish, and then none has changed."""
    if small := [result.name for result in results if result.scale != 1]:
        raise CannotPublish(f"expected results of the full size, found smaller ones of {', '.join(small)}")
    kept = as_json(machine, [replace(result, raw=without_long_lists(result.raw)) for result in results])
    texts = {place.json: kept, **dict(regenerated(place, json.loads(kept)))}
    for file, text in texts.items():
        file.write_text(text)


def regenerated(place: Documents, kept: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Pages and picture as these results have them. Raises CannotPublish."""
    machine, results = kept["machine"], [Result.from_json(one) for one in kept["benchmarks"]]
    for file, blocks in ((place.page, PAGE), (place.sizing, SIZING)):
        text = file.read_text()
        for name, shown in blocks.items():
            text = replace_block(text, name, shown(machine, results), file.name)
        yield file, text
    yield place.picture, chart(results)


def replace_block(text: str, name: str, content: str, where: str = "the text") -> str:
    """With this content between the mark of this name and the next end. Raises CannotPublish."""
    begin = f"<!-- measured: {name} -->\n"
    before, found, rest = text.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise CannotPublish(f"{where}: expected {begin.strip()} and {END.strip()}, between which it stands")
    return f"{before}{begin}\n{content.strip()}\n\n{END}{after}"
