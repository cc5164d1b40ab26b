"""The contenders. Each is a module with

- `TITLE`: its name in tables;
- `prepare(work, number)`: called in the parent process before the clock starts;
- `opened(work)`: a context manager around the runs of one process. It gives `run(number)`, which does the work, writes
  `work.table(number)`, and returns values for the report;
- `commits(work, answer)`: the expected number of Delta commits of the table; None if the contender writes plain
  Parquet; missing if the benchmark itself verifies the table;
- `UNSUPPORTED`: reasons by data set that the contender cannot read.
"""

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.data import Dataset

CONTENDERS = ("blizzard", "spark_reader", "streaming", "arrow_loop", "bare_limit")


@dataclass(frozen=True, slots=True)
class Work:
    """The task of a contender: read `data` and write a table, `runs` times, on `cores` cores.

    `out`: folder or `s3://` URI to write to. `source`: URI to read from, if the data is not read from the local disk.
    `settings`: fields of the source in `pipelines.yaml`. `options`: specific to a single benchmark. `started`:
    monotonic time at which the process was started; 0 before that.
    """

    contender: str
    data: Dataset
    out: str
    runs: int
    cores: int
    source: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    spark_conf: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    started: float = 0.0

    @property
    def source_uri(self) -> str:
        return self.source or self.data.folder

    def table(self, number: int) -> str:
        return f"{self.out}/{number}/table"

    def paths(self) -> list[str]:
        return [f"{self.source_uri}/{path}" for path in self.data.paths]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        data = document.pop("data")
        return cls(data=Dataset(**{**data, "paths": tuple(data["paths"])}), **document)


class Run(Protocol):
    def __call__(self, number: int, /) -> dict[str, Any]: ...


class Contender(Protocol):
    TITLE: str
    UNSUPPORTED: dict[str, str]

    def prepare(self, work: Work, number: int) -> None: ...

    def opened(self, work: Work) -> AbstractContextManager[Run]: ...

    def commits(self, work: Work, answer: dict[str, Any]) -> int | None: ...


def contender(name: str) -> Contender:
    """Imports the contender's module. Some contenders belong to a single benchmark and are not in CONTENDERS."""
    module: Any = import_module(f"benchmarks.contenders.{name}")
    found: Contender = module
    return found


def date_of(path: str) -> str:
    """The date in the name of the file's folder, `date=…`."""
    return Path(path).parent.name.partition("=")[2]
