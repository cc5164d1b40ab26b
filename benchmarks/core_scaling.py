"""How throughput grows with cores: results of one benchmark on few cores and on more, beside each other."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.result import Result, Table
from benchmarks.stats import TIMES, Spread


def on_most_cores(results: Sequence[Result]) -> list[Result]:
    """Of each benchmark the result on the most cores, which is the one that is reported; 0 is all that there are."""
    most: dict[str, Result] = {}
    for result in results:
        known = most.get(result.name)
        if known is None or (known.cores and (not result.cores or result.cores > known.cores)):
            most[result.name] = result
    return [*most.values()]


def growth(machine: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Table]:
    """By benchmark, where there are results on several numbers of cores: records a second of each contender."""
    found = {}
    for name in dict.fromkeys(result.name for result in results):
        by_cores = {(one.cores or machine["cores"]): one for one in results if one.name == name and one.bars}
        if len(by_cores) > 1:
            found[name] = _table({cores: by_cores[cores] for cores in sorted(by_cores)})
    return found


def _table(by_cores: Mapping[int, Result]) -> Table:
    """The growth is between the fewest cores and the most. These were measured one after the other and not in turn, so
    each run on the fewest is divided by each on the most, and the spread is of all these pairs."""
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
    """Warm, if there was a warm run."""
    told = result.raw["contenders"][name]
    secs: list[float] = told["warm_secs"] or told["cold_secs"]
    return secs
