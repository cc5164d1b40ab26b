"""The service of runs, as files: a start creates one by its token, as EMR Serverless does it."""

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass

from blizzard.dispatch.service import RunState, RunStatus
from blizzard.errors import AlreadyExists
from blizzard.storage.base import ObjectStore
from tests.proof.breaks import TWO_RUNS
from tests.proof.kill_calls.steps import Steps

STARTED = "StartJobRun"
"""The call that starts a run."""


@dataclass(frozen=True, slots=True)
class FileService:
    """As a dispatcher sees it."""

    store: ObjectStore
    steps: Steps
    variant: str = ""
    fingerprint: str = "release-1"

    def start(self, pipeline: str, client_token: str) -> str:
        run_id = secrets.token_hex(8) if self.variant == TWO_RUNS else re.sub(r"[^A-Za-z0-9]", "-", client_token)

        def effect() -> str:
            with suppress(AlreadyExists):  # the original run, whatever has become of it
                self.store.create(
                    f"{run_id}.run", json.dumps({"life": RunStatus.ACTIVE, "pipeline": pipeline}).encode()
                )
            return run_id

        return self.steps(STARTED, effect)

    def state(self, run_id: str) -> RunState | None:
        def effect() -> RunState | None:
            status = runs(self.store).get(run_id)
            return None if status is None else RunState(status, str(status))

        return self.steps("GetJobRun", effect)

    def active(self, pipeline: str) -> str | None:
        if self.variant == TWO_RUNS:
            return None
        return self.steps("ListJobRuns", lambda: next(iter(active_runs(self.store)), None))


def runs(store: ObjectStore) -> dict[str, RunStatus]:
    names = [info.key for info in store.list() if info.key.endswith(".run")]
    return {name[:-4]: RunStatus(json.loads(store.get(name))["life"]) for name in names}


def active_runs(store: ObjectStore) -> list[str]:
    return [run_id for run_id, status in runs(store).items() if status is RunStatus.ACTIVE]


def end_run(store: ObjectStore, run_id: str, status: RunStatus) -> None:
    key = f"{run_id}.run"
    store.put(key, json.dumps({**json.loads(store.get(key)), "life": status}).encode())
