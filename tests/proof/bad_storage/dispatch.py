"""The dispatcher of a world on bad storage: its run records are on S3; the service that runs jobs is in memory."""

import threading
from collections.abc import Callable, Iterable
from itertools import count

from blizzard.config.published import PublishedPipeline, PublishedSource
from blizzard.dispatch.decide import FailurePolicy
from blizzard.dispatch.dispatcher import Dispatcher, Logs
from blizzard.dispatch.run_records import decode
from blizzard.dispatch.service import RunStatus, ServiceBusy
from blizzard.errors import UnreadableState
from blizzard.log import silent
from blizzard.storage.base import ObjectStore
from tests.unit.dispatch_world import FakeService, Run

POLICY = FailurePolicy(max_failures=1_000_000, backoff_secs=0.0, max_backoff_secs=0.0)
"""Storage fails for so long that the circuit would stay open for the rest of the round."""


class Service(FakeService):
    """For several dispatchers at once. The id of a run is its token, so that no two services share one. `honest`:
    whether it honours tokens and lists active runs."""

    def __init__(self, *, honest: bool = True) -> None:
        super().__init__()
        self._honest = honest
        self._lock = threading.Lock()
        self.losses: list[bool] = []
        """For each of the next starts, whether it is carried out although its response is lost."""

    def start(self, pipeline: str, client_token: str) -> str:
        with self._lock:
            run_id = client_token if self._honest else f"{client_token}-{self.started}"
            self.runs.setdefault(run_id, Run(run_id, pipeline))
            self.most_active = max(self.most_active, len(self.active_runs(pipeline)))
            if self.losses and self.losses.pop():
                raise ServiceBusy(f"start {run_id}: the connection broke before the answer came")
            return run_id

    def active(self, pipeline: str) -> str | None:
        with self._lock:
            return super().active(pipeline) if self._honest else None

    @property
    def started(self) -> int:
        return len(self.runs)

    def end(self, run_ids: Iterable[str], status: RunStatus) -> None:
        for run_id in run_ids:
            self.runs[run_id].status, self.runs[run_id].detail = status, str(status)


class Runs:
    """The runs of a pipeline with one source. `clock` gives Unix seconds; `honest` as in Service."""

    def __init__(self, source: PublishedSource, clock: Callable[[], float], *, honest: bool = True) -> None:
        self.service = Service(honest=honest)
        self._pipeline = PublishedPipeline(source.pipeline, source.table_uri, 0.0, (source,))
        self._clock = clock

    def dispatch(self, store: ObjectStore, name: str) -> None:
        """With a new dispatcher, whose ids begin with `name`. Raises its error."""
        numbers = count()
        found = Dispatcher(
            self._pipeline,
            store=store,
            service=self.service,
            policy=POLICY,
            clock=self._clock,
            new_id=lambda: f"{name}-{next(numbers)}",
            log=Logs(silent, silent, silent),
        ).dispatch()
        if found.error is not None:
            raise found.error

    def at_once(self) -> str:
        """A complaint about the number of concurrent runs; empty: none."""
        most = self.service.most_active
        return f"{most} runs are active at once" if most > 1 else ""

    def records_gone_wrong(self, store: ObjectStore) -> str:
        """A complaint about the run records, all of which are in `store`; empty: none."""
        name = self._pipeline.name
        for info in store.list(f"_blizzard/_runs/{name}/"):
            number = int(info.key.rpartition("/")[2].removesuffix(".json"))
            try:
                record = decode(store.get(info.key), pipeline=name, number=number)
            except UnreadableState as error:
                return f"a run's record cannot be read: {error}"
            if record.run_id is not None and self.service.state(record.run_id) is None:
                return f"record {number} is of run {record.run_id}, which nobody started"
        return ""
