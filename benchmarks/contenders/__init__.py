"""Who is measured. Each contender is a module with

- `TITLE`, its name in tables; `SESSION`, whether a first run differs from later ones (a JVM that starts and warms up);
- `prepare(work, number)`: what lies there before the clock starts, done by the parent process;
- `opened(work)`: a context manager around the runs of one process, which gives `run(number)`: the work itself, into
  `work.table(number)`; what it returns goes into the report;
- `commits(work, answer)`: how many Delta commits the table must have then; None for one that writes no Delta table;
  missing where the benchmark itself checks the work;
- `UNSUPPORTED`: by data set, why it cannot do that work.
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
    """What a contender has to do: read `data` and write a table, `runs` times, with `cores` cores.

    `out`: a folder, or an `s3://` URI, for what it writes; `source`: where the data is read from, if not on this disk.
    `settings`: the source's in `pipelines.yaml`; `options`: what a single benchmark has to say to its contenders.
    `started`: the monotonic clock when the process was started, 0 before.
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
    """The module of this name; what it needs is imported only then. There are more of them than CONTENDERS: some are of
    one benchmark alone."""
    module: Any = import_module(f"benchmarks.contenders.{name}")
    found: Contender = module
    return found


def date_of(path: str) -> str:
    """The value in a folder `date=…`."""
    return Path(path).parent.name.partition("=")[2]
