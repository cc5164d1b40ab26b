"""What the dispatcher is made of: from the published configuration to one dispatcher for each pipeline."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from blizzard.dispatch.dispatcher import Dispatched, Dispatcher, Logs
from blizzard.published import Published
from functions.dispatcher.emr import EmrClient, EmrServerless
from functions.dispatcher.job_request import JobSettings
from functions.runtime import Configured, Runtime

CLIENT_TIMEOUT_SECS = 10.0
CLIENT_ATTEMPTS = 4
"""Short throttling is waited out; what lasts is left to the next trigger, with the same token."""


class Dispatch:
    """Dispatches pipelines by the newest configuration that could be used."""

    def __init__(self, configured: Configured[Mapping[str, Dispatcher]], clock: Callable[[], float]) -> None:
        self._configured = configured
        self._clock = clock

    def pipelines(self) -> tuple[str, ...]:
        """Raises BlizzardError when there is no usable configuration yet."""
        return tuple(self._dispatchers())

    def of(self, pipelines: Iterable[str]) -> list[Dispatched]:
        """One dispatch for each of these pipelines, which the configuration has."""
        dispatchers = self._dispatchers()
        return [dispatchers[name].dispatch() for name in pipelines]

    def _dispatchers(self) -> Mapping[str, Dispatcher]:
        return self._configured.current(self._clock())


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

    return Dispatch(runtime.configured(build), time.time)
