"""What the dispatcher is made of: from the published configuration to one dispatcher for each pipeline."""

import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256

from blizzard.config.published import Published
from blizzard.dispatch.dispatcher import Dispatcher, DispatchResult, Logs
from functions.dispatcher.emr import EmrClient, EmrServerless
from functions.dispatcher.job_request import JobSettings
from functions.runtime import Configured, FunctionLog, Runtime

CLIENT_TIMEOUT_SECS = 10.0
CLIENT_ATTEMPTS = 4
"""Short throttling is waited out; what lasts is left to the next trigger, with the same token."""
MAX_TRACEBACK = 4000


class Dispatch:
    """Dispatches pipelines by the newest configuration that could be used."""

    def __init__(
        self, configured: Configured[Mapping[str, Dispatcher]], clock: Callable[[], float], log: FunctionLog
    ) -> None:
        self._configured = configured
        self._clock = clock
        self._log = log

    def pipelines(self) -> tuple[str, ...]:
        """Raises BlizzardError when there is no usable configuration yet."""
        return tuple(self._dispatchers())

    def round(self) -> tuple[str, ...]:
        """All of them, each time from another one on: where time runs out, it is not always the same that wait."""
        names = self.pipelines()
        start = first_of_round(self._clock(), len(names))
        return names[start:] + names[:start]

    def that_started(self, run_id: str) -> tuple[str, ...]:
        """The pipelines whose newest record is about this run: one, or none."""
        return tuple(name for name, dispatcher in self._dispatchers().items() if dispatcher.is_newest_run(run_id))

    def one(self, pipeline: str) -> DispatchResult:
        """One dispatch of a pipeline, which the configuration has. Any error is in the answer: it keeps no other."""
        dispatcher = self._dispatchers()[pipeline]
        try:
            return dispatcher.dispatch()
        except Exception as error:  # noqa: BLE001 - the boundary: logged, and an error of the invocation in the end
            kind, where = type(error).__name__, "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
            self._log.error("dispatch_failed", pipeline=pipeline, error=str(error), error_kind=kind, traceback=where)
            return DispatchResult(pipeline, error=error)

    def _dispatchers(self) -> Mapping[str, Dispatcher]:
        return self._configured.current(self._clock())


def first_of_round(now_ts: float, count: int) -> int:
    """Which of `count` is first, by the second: whatever the period of a schedule, each comes first again and again."""
    return int.from_bytes(sha256(str(int(now_ts)).encode()).digest()[:8], "big") % max(1, count)


def make_dispatch(runtime: Runtime, client: Callable[[], EmrClient] | None = None) -> Dispatch:
    """Raises ConfigError, which names all that is wrong with the environment. Nothing is contacted yet."""
    settings = JobSettings.from_environment(runtime.environ)
    emr = partial(runtime.client, "emr-serverless", timeout_secs=CLIENT_TIMEOUT_SECS, max_attempts=CLIENT_ATTEMPTS)
    service = EmrServerless(settings, client or emr)

    def build(published: Published) -> Mapping[str, Dispatcher]:
        return {
            name: Dispatcher(
                pipeline,
                store=runtime.store(pipeline.table_uri, may_be_missing=True),
                service=service,
                policy=settings.policy,
                clock=time.time,
                new_id=lambda: secrets.token_hex(8),
                log=Logs(runtime.log.info, runtime.log.warning, runtime.log.error),
            )
            for name, pipeline in published.pipelines.items()
        }

    return Dispatch(runtime.configured(build), time.time, runtime.log)
