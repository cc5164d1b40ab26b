"""The files and tables of the campaign `rebuild`: what lands, what has to be in the table, and what gets lost."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from tests.proof import places
from tests.proof.campaign import Run
from tests.proof.file_names import drawn
from tests.proof.rebuild.processes import PIPELINE
from tests.unit.rebuild_lake import become_table_of

SOURCES = ("shop", "market")
_SOURCE = """\
      {name}:
        uri: {name}
        pattern: "**/*.ndjson"
        schema: "id STRING NOT NULL, n BIGINT"
        settle_delay_secs: 0
        checkpoint: {{interval_files: 3, interval_bytes: 2KB}}
"""
CONFIG = """\
# what the shop and the market sell
pipelines:
  orders:
    table_uri: table-0    # one table
    engine: local
    sources:
""" + "".join(_SOURCE.format(name=name) for name in SOURCES)
LARGE, SMALL, BAD = 0.08, 4, 0.2
"""Shares of the files that are larger than a batch, and that have a record which is refused; most records of others."""


@dataclass
class Lake:
    folder: Path
    records: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The ids of the good records, by source and path."""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """The files that have a record which is refused, too."""
    gone: set[tuple[str, str]] = field(default_factory=set)
    """Files that the sources do not have any more. Their rows stay."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for source in SOURCES:
            (self.folder / source).mkdir()
        self.config.write_text(CONFIG)

    @property
    def config(self) -> Path:
        return self.folder / "pipelines.yaml"

    @property
    def tables(self) -> list[str]:
        """That there are, by name."""
        return sorted(each.name for each in self.folder.glob("table-*") if (each / "_delta_log").is_dir())

    def uri(self, table: str) -> str:
        return f"file://{self.folder}/{table}"

    # -- what lands, and what is deleted

    def land(self, rng: random.Random, run: Run) -> str:
        source = rng.choice(SOURCES)
        path = drawn(rng, len(self.records), ".ndjson", run)
        count = 100 if rng.random() < LARGE else rng.randint(0, SMALL)
        ids = [f"{path} {number}" for number in range(count)]
        lines = [json.dumps({"id": each, "n": number}) for number, each in enumerate(ids)]
        if rng.random() < BAD:
            lines.insert(rng.randint(0, len(lines)), "{")
            self.refused.add((source, path))
        file = self.folder / source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        self.records[source, path] = ids
        run.counts["files"] += 1
        run.counts["records"] += count
        return f"landed: {source}/{path}, {count} records"

    def archive(self, table: str, rng: random.Random) -> str | None:
        """Deletes the object of a file that is in the table with all of its records; None: there is none."""
        found = Counter(file for file, _, _ in self.rows(table))
        whole = [key for key, ids in self.records.items() if ids and found[key] == len(ids) and key not in self.gone]
        if not whole:
            return None
        source, path = rng.choice(whole)
        (self.folder / source / path).unlink()
        self.gone.add((source, path))
        return f"{source}/{path} was deleted from its source"

    # -- what is there, and what has to be

    def rows(self, table: str) -> Iterator[tuple[tuple[str, str], str, int]]:
        """Source and path, id and number."""
        with suppress(TableNotFoundError):
            for row in DeltaTable(str(self.folder / table)).to_pyarrow_table().to_pylist():
                source = row["_source"]["source"].partition(":")[2]
                yield (source, row["_source"]["file"]), row["id"], row["n"]

    def differences(self, table: str) -> tuple[list[Any], list[Any]]:
        """Rows that are missing, and those that are there more than once or never were."""
        wanted = Counter((key, each, n) for key, ids in self.records.items() for n, each in enumerate(ids))
        found = Counter(self.rows(table))
        return sorted(wanted - found), sorted(found - wanted)

    def silent(self, table: str) -> list[tuple[str, str]]:
        """Files whose refused record has no letter, or more than one."""
        store = LocalStore(self.folder / table)
        letters = Counter(
            (source, letter["path"])
            for source in SOURCES
            for letter in DeadLetters(store, _prefix(source), f"{PIPELINE}:{source}").letters()
        )
        return sorted(key for key in self.refused if letters[key] != 1)

    def moved_to(self, table: str) -> dict[str, str | None]:
        """What the newest commit of each source says."""
        found = dict[str, str | None]()
        for commit in DeltaTable(str(self.folder / table)).history():
            state = json.loads(commit.get("userMetadata") or "{}")
            if "source" in state:
                found.setdefault(state["source"], state.get("moved_to"))
        return found

    # -- what gets lost

    def lose(self, table: str, rng: random.Random) -> str:
        """Of one source or all; the letters stay, which nothing can bring back."""
        return rng.choice((self._lose_copies, self._lose_states, self._copy_rows))(table, rng)

    def _lose_copies(self, table: str, rng: random.Random) -> str:
        for copy in (self.folder / table / "_blizzard").glob("*_checkpoint.json"):
            copy.unlink()
        return "the copies of the checkpoints are lost"

    def _lose_states(self, table: str, rng: random.Random) -> str:
        source = rng.choice(SOURCES)
        for part in (self.folder / table / _prefix(source)).glob("*"):
            if part.name != "dead_letters":
                shutil.rmtree(part) if part.is_dir() else part.unlink()
        return f"the state of {source} is lost"

    def _copy_rows(self, table: str, rng: random.Random) -> str:
        """The table becomes one with the same rows, and without a log of ours."""
        become_table_of(self.folder / table, DeltaTable(str(self.folder / table)).to_pyarrow_table())
        return "the rows were copied into a table without the log"


def _prefix(source: str) -> str:
    return places.prefix_of(f"{PIPELINE}:{source}")
