"""How throughput scales with cores: results of one benchmark on different numbers of cores."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.result import Result, Table
from benchmarks.stats import TIMES, Spread


def on_most_cores(results: Sequence[Result]) -> list[Result]:
    """For each benchmark the result on the most cores. 0 cores means all of the machine."""
    most: dict[str, Result] = {}
    for result in results:
        known = most.get(result.name)
        if known is None or (known.cores and (not result.cores or result.cores > known.cores)):
            most[result.name] = result
    return [*most.values()]


def growth(machine: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Table]:
    """Records per second of each contender, for each benchmark that has results on several numbers of cores."""
    found = {}
    for name in dict.fromkeys(result.name for result in results):
        by_cores = {(one.cores or machine["cores"]): one for one in results if one.name == name and one.bars}
        if len(by_cores) > 1:
            found[name] = _table({cores: by_cores[cores] for cores in sorted(by_cores)})
    return found


def _table(by_cores: Mapping[int, Result]) -> Table:
    """The last column is the speedup from the fewest cores to the most. The runs were not interleaved, so each run on
    the fewest cores is divided by each on the most, and the spread covers all pairs."""
    fewest, *_, most = by_cores.values()
    few, many = min(by_cores), max(by_cores)
    columns = ("records/s", *(_cores(number) for number in by_cores), f"{TIMES.strip()}, {few} to {many}")
    rows = []
    for name in fewest.raw["contenders"]:
        if all(name in result.raw["contenders"] for result in by_cores.values()):
            title = fewest.raw["contenders"][name]["title"]
            rates = (str(_rate(result, name)) for result in by_cores.values())
            grown = Spread.of([a / b for a, b in product(_secs(fewest, name), _secs(most, name))])
            rows.append((title, *rates, str(grown)))
    return Table(columns, tuple(rows))


def _cores(number: int) -> str:
    return f"{number} core" + ("s" if number > 1 else "")


def _rate(result: Result, name: str) -> Spread:
    records = result.raw["data"]["records"]
    return Spread.of([records / secs for secs in _secs(result, name)])


def _secs(result: Result, name: str) -> list[float]:
    """Seconds of warm runs; of cold runs if there was no warm one."""
    told = result.raw["contenders"][name]
    secs: list[float] = told["warm_secs"] or told["cold_secs"]
    return secs
