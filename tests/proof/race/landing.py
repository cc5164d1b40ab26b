"""The files of a race."""

import gzip
import json
from dataclasses import dataclass, field
from random import Random

from tests.proof import large_file, new_fields, widening
from tests.proof.campaign import Run
from tests.proof.file_names import drawn
from tests.proof.places import Place
from tests.proof.race.names import SOURCES
from tests.proof.race.shape import FILES

LARGE_AT = FILES - 1
"""This file of each source is larger than a batch."""


@dataclass
class Landing:
    """`widens`: whether records have numbers for which a column is widened; those for the source `raced` are longer."""

    run: Run
    place: Place
    rng: Random
    raced: str
    widens: bool
    paths: dict[str, list[str]] = field(default_factory=lambda: {source_id: [] for source_id in SOURCES})
    """By source id, of all that has landed."""
    records: int = 0

    def land(self, source_id: str) -> None:
        """One file."""
        number = len(self.paths[source_id])
        path = drawn(self.rng, number, ".ndjson.gz", self.run)
        digits = widening.FIRST_DIGITS + number * (2 if source_id == self.raced else 1)
        if number == LARGE_AT and not self.run.variant:
            lines = [self._line(digits, large_file.ID_BYTES) for _ in range(large_file.RECORDS)]
        else:
            lines = [self._line(digits) for _ in range(self.rng.randint(1, 12))]
        self.place.put(SOURCES[source_id], path, gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        self.paths[source_id].append(path)
        self.run.counts["files"] += 1

    def _line(self, digits: int, id_bytes: int = 0) -> str:
        self.records += 1
        self.run.counts["records"] += 1
        values = {"id": f"{self.records}{self.rng.randbytes(id_bytes).hex()}", "n": self.records}
        if not self.run.variant:  # there a job has to lose its race with rows, not with columns
            values = new_fields.record(self.records, self.rng, **values)
        if self.widens:
            values = widening.record(digits, self.rng, **values)
        text = json.dumps(values)
        return text[:-1] if self.rng.random() < 0.02 else text
