"""Which files land between two jobs of the campaign `kill`, and which of them are announced by an event."""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.proof import large_file, new_fields, places, widening
from tests.proof.breaks import BOTH_READS
from tests.proof.campaign import Run
from tests.proof.file_names import drawn
from tests.proof.places import Place

NARROW_FILES = 4
"""Of a table whose column is widened: the first job makes it as it is configured."""
LARGE_EVERY, LARGE_AT, LARGE_AT_WIDENED = 25, 2, 12
"""Files; the second one, which lands before the first job, is the first that is larger than a batch. Where a column is
widened it is a later one, whose numbers widen it."""


@dataclass
class Landing:
    """The files of one source. Each record says in its id which it is."""

    place: Place
    folder: str
    source_id: str
    small: list[str] = field(default_factory=list)
    overwritten: set[str] = field(default_factory=set)
    count: int = 0
    records: int = 0
    widens: bool = False
    """Whether records have numbers for which a column is widened."""
    digits: int = 0
    """Of the longest of these that has landed."""

    def land(self, rng: random.Random, run: Run) -> Iterator[str]:
        """New files, of which some are announced; says what it did. What has to be asked of the table is rare: it takes
        Spark seconds. It has no part in showing that something is broken on purpose."""
        paths = [self._new(rng, run) for _ in range(rng.randint(2, 4))]
        if self.small and not run.variant and rng.random() < 0.1:
            paths.append(self._overwritten(rng, run))
        told = [path for path in paths if rng.random() < 0.7]
        again = [rng.choice(self.small)] if self.small and rng.random() < 0.1 else []
        places.announce(self.place, self.source_id, self.folder, [*told, *again])
        run.counts["events withheld"] += len(paths) - len(told)
        run.counts["events repeated"] += len(again)
        yield f"landed {', '.join(paths)}; announced {', '.join([*told, *again]) or 'none'}"

    def _new(self, rng: random.Random, run: Run) -> str:
        self.count += 1
        late = rng.random() < 0.04
        path = f"a-{self.count:06d}.ndjson.gz" if late else drawn(rng, self.count, ".ndjson.gz", run)
        run.counts["files"] += 1
        run.counts["files that come late"] += late
        if self.count % LARGE_EVERY == (LARGE_AT_WIDENED if self.widens else LARGE_AT):
            self._put(path, large_file.RECORDS, rng, run, id_bytes=large_file.ID_BYTES)
            run.counts["files larger than a batch"] += 1
        else:
            self._put(path, rng.randint(0, 40), rng, run)
            self.small.append(path)
        return path

    def _overwritten(self, rng: random.Random, run: Run) -> str:
        path = rng.choice(self.small)
        self.overwritten.add(path)
        self._put(path, rng.randint(1, 40), rng, run)
        run.counts["files overwritten"] += 1
        return path

    def _put(self, path: str, records: int, rng: random.Random, run: Run, *, id_bytes: int = 20) -> None:
        lines = [self._line(rng, run, id_bytes) for _ in range(records)]
        self.place.put(self.folder, path, gzip.compress("".join(f"{line}\n" for line in lines).encode()))

    def _line(self, rng: random.Random, run: Run, id_bytes: int) -> str:
        self.records += 1
        broken = rng.random() < 0.02
        run.counts["records broken" if broken else "records"] += 1
        values = {"id": f"{self.records}-{rng.randbytes(id_bytes).hex()}", "n": self.records}
        # A change of columns is a commit of its own, which kills planned for a variant do not count with.
        if run.variant in ("", BOTH_READS):
            values = new_fields.record(self.records, rng, **values)
        if self.widens:
            digits = widening.FIRST_DIGITS + max(0, self.count - NARROW_FILES)
            values = widening.record(digits, rng, **values)
            self.digits = max(self.digits, 0 if broken else widening.digits_of(values))
        text = json.dumps(values)
        return text[:-1] if broken else text
