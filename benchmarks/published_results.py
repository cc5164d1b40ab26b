"""Publish results: store them in `docs/performance.json` and regenerate the documents from there.

The stored results are the output of `--json` without long lists (single commits, files, events). In
`docs/performance.md` and `docs/sizing.md` the blocks between marks are replaced. The chart, `docs/performance.svg`, is
written as a whole.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.chart import chart
from benchmarks.report import as_markdown
from benchmarks.result import Result
from benchmarks.sizing import as_driver, as_sizing
from benchmarks.suite import BENCHMARKS
from benchmarks.summary import as_summary

MAX_LIST_ITEMS = 30
"""Longer lists are dropped. Rounds stay, single events do not."""
Machine = Mapping[str, Any]
Shown = Callable[[Machine, Sequence[Result]], str]
PAGE: Mapping[str, Shown] = {"figures of the benchmarks": as_summary, "what came out": as_markdown}
SIZING: Mapping[str, Shown] = {"how large a job has to be": as_sizing, "the driver's share": as_driver}
END = "<!-- end of what was measured -->\n"


class CannotPublish(Exception):
    """The results must not be published, or a document lacks a mark."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Paths of the published documents; all lie next to the JSON file."""

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
    """Reads a file that `--json` or `--keep` wrote. Older results without `cores` get the cores of the machine."""
    document = json.loads(results_file.read_text())
    machine = document["machine"]
    results = (Result.from_json(one) for one in document["benchmarks"])
    return machine, [replace(one, cores=one.cores or machine["cores"]) for one in results]


def as_json(machine: Machine, results: Sequence[Result]) -> str:
    """The format that `read_results` reads."""
    return json.dumps({"machine": machine, "benchmarks": [result.to_json() for result in results]}, indent=1) + "\n"


def merge_results(parts: Sequence[tuple[Machine, Sequence[Result]]]) -> tuple[Machine, list[Result]]:
    """A later result replaces an earlier one of the same benchmark on the same number of cores. The machine is that of
    the first part; results of another one carry it. Raises CannotPublish if one benchmark was measured on several
    machines, since its results are compared with each other."""
    machine = parts[0][0]
    found: dict[tuple[str, int], Result] = {}
    for where, results in parts:
        for one in results:
            own = one.machine or where
            cores = one.cores or own["cores"]
            found[one.name, cores] = replace(one, cores=cores, machine=None if own == machine else own)
    for one, other in product(found.values(), repeat=2):
        if one.name == other.name and one.machine != other.machine:
            raise CannotPublish(
                f"{one.name}: expected results of one machine, found those of two; measure it on {one.cores} and "
                f"{other.cores} cores again"
            )
    return machine, sorted(found.values(), key=lambda one: (BENCHMARKS.index(one.name), -one.cores))


def without_long_lists(value: Any) -> Any:
    """Replaces each long list by its length."""
    if isinstance(value, Mapping):
        return {name: without_long_lists(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return {"left out": len(value)} if len(value) > MAX_LIST_ITEMS else [without_long_lists(each) for each in value]
    return value


def publish(place: Documents, machine: Machine, results: Sequence[Result]) -> None:
    """Writes all documents, or none if it raises CannotPublish."""
    if small := [result.name for result in results if result.scale != 1]:
        raise CannotPublish(
            f"expected results at --scale 1, found a smaller scale for {', '.join(small)}; run these at full size"
        )
    kept = as_json(machine, [replace(result, raw=without_long_lists(result.raw)) for result in results])
    texts = {place.json: kept, **dict(regenerated(place, json.loads(kept)))}
    for file, text in texts.items():
        file.write_text(text)


def regenerated(place: Documents, kept: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Path and new text of each page and of the chart. Raises CannotPublish."""
    machine, results = kept["machine"], [Result.from_json(one) for one in kept["benchmarks"]]
    for file, blocks in ((place.page, PAGE), (place.sizing, SIZING)):
        text = file.read_text()
        for name, shown in blocks.items():
            text = replace_block(text, name, shown(machine, results), file.name)
        yield file, text
    yield place.picture, chart(results)


def replace_block(text: str, name: str, content: str, where: str = "the text") -> str:
    """Replaces the text between the mark of this name and the next end mark. Raises CannotPublish."""
    begin = f"<!-- measured: {name} -->\n"
    before, found, rest = text.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise CannotPublish(
            f"{where}: expected the marks {begin.strip()} and {END.strip()} around the generated block; restore them"
        )
    return f"{before}{begin}\n{content.strip()}\n\n{END}{after}"
