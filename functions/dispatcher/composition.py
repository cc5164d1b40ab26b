"""The composition root of the dispatcher function, and one round over the pipelines of its trigger."""

import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from blizzard.config.published import PublishedConfig
from blizzard.dispatch.dispatcher import Dispatcher, DispatchResult, Logs
from functions.dispatcher.emr import EmrClient, EmrServerless
from functions.dispatcher.job_request import JobSettings
from functions.dispatcher.triggers import JobStateChanged, Trigger, UnnamedRunChanged, WakeUps
from functions.runtime import FunctionLog, ReloadingConfig, Runtime

CLIENT_TIMEOUT_SECS = 10.0
CLIENT_ATTEMPTS = 4
"""Enough for short throttling. After longer throttling the next trigger tries again with the same token."""
MAX_TRACEBACK = 4000
RESERVE_SECS = 20.0
"""If less than this is left of the function's time, no further pipeline is dispatched. Most pipelines take a second;
one whose calls are throttled or time out may take this long."""


@dataclass(frozen=True, slots=True)
class DispatchOutcome:
    failed: tuple[DispatchResult, ...]
    postponed: tuple[str, ...]
    """Pipelines that were not dispatched, since too little time was left."""


class DispatchRound:
    """Dispatches the pipelines of the newest usable configuration."""

    def __init__(
        self, config: ReloadingConfig[Mapping[str, Dispatcher]], clock: Callable[[], float], log: FunctionLog
    ) -> None:
        self._config = config
        self._clock = clock
        self._log = log

    def run(
        self, trigger: Trigger, remaining_secs: Callable[[], float], report: Callable[[DispatchResult], None]
    ) -> DispatchOutcome:
        """Dispatch the trigger's pipelines, at least the first one. `remaining_secs`: of the function's time.

        `report` gets each pipeline as soon as it is done, so that a timeout later on does not lose it. Raises
        BlizzardError when there is no usable configuration yet.
        """
        failed: list[DispatchResult] = []
        pending = [*self._pipelines_of(trigger)]
        while pending:
            found = self._dispatch(pending.pop(0))
            report(found)
            if found.error:
                failed.append(found)
            if pending and remaining_secs() < RESERVE_SECS:
                self._log.warning("dispatch_put_off", pipelines=pending, remaining_secs=remaining_secs())
                break
        return DispatchOutcome(tuple(failed), tuple(pending))

    def _pipelines_of(self, trigger: Trigger) -> tuple[str, ...]:
        match trigger:
            case WakeUps():
                return self._woken(trigger)
            case JobStateChanged(pipeline, name, state):
                if pipeline is not None and pipeline in self._dispatchers():
                    return (pipeline,)
                self._log.info("run_ignored", run=name, state=state)
                return ()
            case UnnamedRunChanged(run_id):
                return self._pipelines_of_run(run_id) or self._all_rotated()
        return self._all_rotated()

    def _woken(self, wakes: WakeUps) -> tuple[str, ...]:
        for message_id, error in wakes.bad.items():
            self._log.warning("message_bad", message_id=message_id, error=error)
        known = self._dispatchers()
        for name in wakes.messages.keys() - known.keys():
            self._log.warning("pipeline_unknown", pipeline=name)
        return tuple(name for name in wakes.messages if name in known)

    def _pipelines_of_run(self, run_id: str) -> tuple[str, ...]:
        """The pipelines whose newest record is about this run: one, or none."""
        return tuple(name for name, dispatcher in self._dispatchers().items() if dispatcher.is_newest_run(run_id))

    def _all_rotated(self) -> tuple[str, ...]:
        """All pipelines, starting with a different one each time, so that a lack of time does not always skip the
        same."""
        names = tuple(self._dispatchers())
        first = first_of_round(self._clock(), len(names))
        return names[first:] + names[:first]

    def _dispatch(self, pipeline: str) -> DispatchResult:
        """Any error is returned in the result, so that it does not stop other pipelines."""
        dispatcher = self._dispatchers()[pipeline]
        try:
            return dispatcher.dispatch()
        except Exception as error:  # noqa: BLE001 - the boundary: logged, and in the end the invocation fails
            kind, where = type(error).__name__, "".join(traceback.format_exception(error))[-MAX_TRACEBACK:]
            self._log.error("dispatch_failed", pipeline=pipeline, error=str(error), error_kind=kind, traceback=where)
            return DispatchResult(pipeline, error=error)

    def _dispatchers(self) -> Mapping[str, Dispatcher]:
        return self._config.current(self._clock())


def first_of_round(now_ts: float, count: int) -> int:
    """Which of `count` pipelines is first, from a hash of the second: fair with any period of the schedule."""
    return int.from_bytes(sha256(str(int(now_ts)).encode()).digest()[:8], "big") % max(1, count)


def make_dispatch_round(runtime: Runtime, client: Callable[[], EmrClient] | None = None) -> DispatchRound:
    """Raises ConfigError, which names every wrong environment variable. Contacts no service yet."""
    settings = JobSettings.from_environment(runtime.environ)
    emr = partial(runtime.client, "emr-serverless", timeout_secs=CLIENT_TIMEOUT_SECS, max_attempts=CLIENT_ATTEMPTS)
    service = EmrServerless(settings, client or emr)

    def build(published: PublishedConfig) -> Mapping[str, Dispatcher]:
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

    return DispatchRound(runtime.reloading_config(build), time.time, runtime.log)
