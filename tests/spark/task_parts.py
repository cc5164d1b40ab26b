"""Tasks that do as their parts say, in the place of those that read files, and what they leave behind."""

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_job.ports.reader import Outcome
from spark_job.tasks.report import Report

PATIENCE_SECS = 60.0


class UnforeseenError(Exception):
    """Of a task."""


@dataclass(frozen=True, slots=True)
class Part:
    """`waits_for`: the name of another part, which has to come first. `ends`: `well`, `raising` or `killed`. A part
    that is to be killed, and that the job's own process has got, waits for one in another process instead."""

    folder: str
    name: str
    ends: str = "well"
    waits_for: str = ""
    job: int = 0

    def wait_for(self, name: str) -> None:
        give_up_ts = time.monotonic() + PATIENCE_SECS
        while not Path(self.folder, name).exists():
            if time.monotonic() > give_up_ts:
                raise TimeoutError(f"{self.name} waited in vain for {name}")
            time.sleep(0.01)

    def leave(self, name: str) -> None:
        Path(self.folder, name).touch()

    def run(self) -> None:
        if self.waits_for:
            self.wait_for(self.waits_for)
        if self.ends == "killed":
            self._be_killed()
        self.leave(self.name)
        if self.ends == "raising":
            error = UnforeseenError(f"of {self.name}")
            error.add_note(f"while reading {self.name}")
            raise error

    def _be_killed(self) -> None:
        if os.getpid() == self.job:
            self.wait_for("killed")
            return
        self.leave("killed")
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class ScriptedTasks:
    """As `ReadTasks`: from a part, as JSON, to a report, as JSON, of one file with the part's name."""

    task: str

    def __call__(self, part: str) -> str:
        found = Part(**json.loads(part))
        found.run()
        return Report([Outcome(found.name, "e", 1, 1, 1, finished=True)]).to_json()


def as_json(parts: Sequence[Part]) -> list[str]:
    return [json.dumps(asdict(part)) for part in parts]
