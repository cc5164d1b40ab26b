"""What lands while the soak lasts, and how fast its days pass."""

import gzip
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from blizzard.paths.partition import TimeTemplate
from tests.proof import places
from tests.proof.campaign import Run
from tests.proof.file_names import RANDOM_NAMES
from tests.proof.places import Place
from tests.proof.soak.job import days_since

AT_RANDOM = "/by-uuid/"
"""The folder, in that of the day, of the files with random names."""
FOLDER, SOURCE = "landing", "events:landing"
LOOKBACK = 2
TEMPLATE = "date=%Y-%m-%d"
DATED = TimeTemplate(TEMPLATE)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a day of the dated folders and the pauses between sweeps last, in seconds; and how often, in rounds,
    the samples are judged."""

    day_secs: float
    sweep_secs: float
    late_secs: float
    judged_every: int

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the source."""
        return {
            "checkpoint": {"interval_files": 50, "interval_secs": 0},
            "partition_filter": {"prefix_template": TEMPLATE, "lookback": LOOKBACK},
            "sweep": {
                "interval_secs": self.sweep_secs,
                "late_interval_secs": self.late_secs,
                "late_overlap_secs": 2 * self.late_secs,
            },
        }


LONG = Pace(day_secs=20.0, sweep_secs=2.0, late_secs=30.0, judged_every=100)
SHORT = Pace(day_secs=1.0, sweep_secs=0.3, late_secs=0.5, judged_every=5)


@dataclass
class Traffic:
    """What lands, round by round, in the folder of its day."""

    place: Place
    epoch_ts: float
    day_secs: float
    count: int = 0

    def land(self, rng: random.Random, run: Run, *, begun: bool) -> list[str]:
        """A few files. Returns those that are announced.

        No sweep promises to find what comes into a folder that has left the window, however short a day is and however
        long the machine was busy elsewhere, nor what came before a source was `begun`: that is announced.
        """
        paths = [self._file(rng, run) for _ in range(rng.randint(1, 4))]
        window = self._day(LOOKBACK)
        told = [path for path in paths if rng.random() < 0.9 or not begun or path < window]
        run.counts["events withheld"] += len(paths) - len(told)
        places.announce(self.place, SOURCE, FOLDER, told)
        return told

    def _file(self, rng: random.Random, run: Run) -> str:
        self.count += 1
        late = rng.random() < 0.05
        run.counts["files that sort below others of their day"] += late
        if rng.random() < 0.5:
            run.counts[RANDOM_NAMES] += 1
            path = f"{self._day(1)}{AT_RANDOM}{UUID(int=rng.getrandbits(128), version=4)}.ndjson.gz"
        else:
            path = f"{self._day(1)}/{'0-' if late else ''}{self.count:08d}.ndjson.gz"
        lines = [json.dumps({"id": f"{self.count}-{n}", "n": n}) for n in range(rng.randint(1, 30))]
        if rng.random() < 0.1:
            lines[rng.randrange(len(lines))] = '{"id": '
            run.counts["broken records"] += 1
        body = gzip.compress("\n".join(lines).encode())
        if rng.random() < 0.02:
            body = body[: len(body) // 2]
            run.counts["broken files"] += 1
        self.place.put(FOLDER, path, body)
        run.counts["files"] += 1
        return path

    def _day(self, back: int) -> str:
        """The folder of the oldest of so many days, today included."""
        return DATED.oldest_folder(days_since(self.epoch_ts, time.time(), self.day_secs), back)
