"""Campaign `engines`: the same random files through both engines give the same table, byte for byte.

Two tables are fed from one folder, one by Spark and one by the engine `auto`. Compared are all rows, what the commits
say of the data files, the entries of the ledger, and dead letters, receipts and state without the times in them. If
`auto` did not need Spark, the data files have to be equal byte for byte: the order in which Spark writes the records
that it judges is its own.
Each round also has a table whose columns its records change, compared with the rules of its world (`evolving`).
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields, replace
from operator import itemgetter
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

from pyspark.sql import SparkSession

from spark_job.engines.local import transaction
from spark_job.engines.local.transaction import AppendTransaction
from spark_job.write.data_file import DataFile
from tests.proof import file_names, new_fields
from tests.proof.bad_input.mutants import packed
from tests.proof.bad_input.random_input import RECORDS, random_file
from tests.proof.bad_input.reader import LIMITS
from tests.proof.bad_input.records import DDL, PARTITION
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.engines import evolving, ledger
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.ledger.small import small_ledger
from tests.proof.spark_session import session
from tests.spark.engine_lake import EngineLake

FILES = "files that both engines have read"
PEAK_MB = "MB of memory at most, without Spark's"
ROWS, LETTERS, OVERWRITTEN = "rows of each engine", "dead letters of each engine", "files that were overwritten"
ENTRIES, WITH_RUNS = "entries of the ledger of each engine", "rounds in which the ledger of each engine had runs"
NEEDED, NOT_NEEDED = "rounds in which the engine auto needed Spark", "rounds in which it did not, equal byte for byte"
SMALL = ((1, 30), (7, 100))
LARGE = ((3_000, 6_000), (1_000, 10_000))
"""Files of a wave, and of a batch at most."""
LARGE_EVERY = 3
ROWS_AT_ONCE = 10_000
WAVES = 3
OVERWRITES = 0.01
"""Share of the files of a wave that are overwritten by the next one."""
ADDS = 0.5
"""Share of the rounds in which files may bring columns."""
ENGINES = ("spark", "auto")
TIMES_AND_NAMES = frozenset({"timestamp", "written_ts", "name", "previous", "id", "createdTime"})
"""Fields of documents that hold a time or a random name."""
OF_THE_STATE = TIMES_AND_NAMES | {
    "last_update_ts",
    "late_swept_ts",
    "receipt",
    "bases",
    "chain",
    "etag",
    "ledger",
    "schema_change",
}
"""The same of the state: `chain` and `etag` are of segments of the manifest. The runs of the ledger are merged beside
ingestion, sooner or later, so their entries are compared, not their names."""
ONE_STYLE = tuple(record for record in RECORDS if not isinstance(record.get("at"), int))
"""Of two styles of timestamps in one block one is left to Spark."""
BROKEN_LINES = (b'{"id":', b"[1]", b'{"n":1}', b'{"id":"a","n":"x"}', b'{"id":"a","flag":0}', b"\xff")
"""Lines, and one that makes its file unreadable, which need no Spark."""
LEFT_OUT = "the local engine leaves a data file out of a commit"
NO_STATISTICS = "the local engine commits no statistics"


class Engines:
    name = "engines"
    about = "the same random files through both engines: the same rows, data files, letters, receipts, ledger and state"
    variants: Mapping[str, Fault] = {
        LEFT_OUT: Fault("the tables have other rows", "^the engines differ in rows"),
        NO_STATISTICS: Fault("the commits say other things of the same files", "^the engines differ in commits"),
        **ledger.VARIANTS,
        **evolving.VARIANTS,
    }
    wanted = (
        *(ROWS, LETTERS, OVERWRITTEN, NEEDED, NOT_NEEDED, new_fields.ADDED, RANDOM_NAMES, IN_PARTITIONS),
        *(ENTRIES, WITH_RUNS),
        *evolving.COUNTS,
    )

    def run(self, run: Run) -> None:
        """Until the budget is spent or both engines have read `run.files`."""
        spark = session(run.folder)
        with ExitStack() as stack:
            if run.variant:
                stack.enter_context(BREAKS[run.variant]())
            for number, rng in run.rounds():
                if run.counts[FILES] >= run.files:
                    break
                with TemporaryDirectory(dir=run.folder) as folder:
                    if run.variant not in evolving.VARIANTS:
                        self._round(run, Path(folder), spark, number, rng)
                    evolving.check(run, Path(folder) / "evolving", spark, number, rng)
                run.counts[PEAK_MB] = getrusage(RUSAGE_SELF).ru_maxrss >> 10

    def _round(
        self, run: Run, folder: Path, spark: Callable[[], SparkSession], number: int, rng: random.Random
    ) -> None:
        # Two that follow each other: one with files of any kind, and one that needs no Spark.
        files, batches = LARGE if number // 2 % LARGE_EVERY == LARGE_EVERY - 1 else SMALL
        settings = {
            "schema": DDL,
            "limits": asdict(LIMITS),
            "uri": str(folder / "landing"),
            "on_overwrite": rng.choice(("dead_letter", "replace")),
            **(new_fields.ADD if rng.random() < ADDS else {}),
            "checkpoint": {"interval_files": rng.choice(batches), "interval_bytes": "8MB"},
        }
        table = {"partition_by": [PARTITION] if rng.random() < 0.5 else []}
        with ExitStack() as stack:
            stack.enter_context(small_ledger(random.Random(f"ledger {run.seed} {number}")))
            lakes = {name: EngineLake(folder / name, spark, settings, table, chosen=name) for name in ENGINES}
            for lake in lakes.values():
                lake.folder.mkdir()
                stack.enter_context(closing(lake))
            landing = _Landing(folder / "landing", run, (random_file, _plain_file)[number % 2])
            landed, step = 0, ""
            for wave in range(rng.randint(1, WAVES)):
                left = run.files - run.counts[FILES] - landed
                if not left:
                    break
                landed += landing.arrive(rng, min(rng.choice(files), left))
                jobs = {name: lake.job() for name, lake in lakes.items()}
                # At the same time: where a sweep finds a file depends on how long ago the one before it was.
                for late in (False, True):
                    for job in jobs.values():
                        job.sweep(late=late, record_if_empty=True)
                for name, job in jobs.items():
                    run.say(f"round {number}: {landed} files, with {name}")
                    job.ingest.drain()
                step = f"seed {run.seed}, round {number}, wave {wave}: {landed} files, {settings}, {table}"
                _compare(run, lakes, step)
            run.counts[FILES] += landed
            _count(run, lakes)
            _compare_lists("files of the table's rows", [ledger.in_rows(lakes[name]) for name in ENGINES], step)


CAMPAIGN = Engines()


class _Landing:
    """The folder from which both tables are fed."""

    def __init__(self, folder: Path, run: Run, new_file: Callable[[random.Random], tuple[str, bytes]]) -> None:
        self._folder = folder
        self._run = run
        self._new_file = new_file
        self._paths: list[str] = []
        folder.mkdir()

    def arrive(self, rng: random.Random, count: int) -> int:
        """Returns `count`, the number of new files."""
        old = [path for path in self._paths if rng.random() < OVERWRITES]
        self._run.counts[OVERWRITTEN] += len(old)
        for path in old:
            self._put(path, self._new_file(rng)[1])
        for _ in range(count):
            extension, body = self._new_file(rng)
            path = file_names.drawn(rng, len(self._paths), f".ndjson{extension}", self._run)
            self._paths.append(path)
            self._put(path, body)
        return count

    def _put(self, path: str, body: bytes) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def _plain_file(rng: random.Random) -> tuple[str, bytes]:
    """Its extension and bytes: whole records, among them some broken lines; sometimes cut off."""
    lines = (json.dumps(record).encode() for record in rng.choices(ONE_STYLE, k=rng.choice((1, 3, 10, 50))))
    body = b"\n".join(rng.choice(BROKEN_LINES) if rng.random() < 0.03 else line for line in lines)
    return packed(body, rng)


def _count(run: Run, lakes: Mapping[str, EngineLake]) -> None:
    """What a round has shown."""
    run.counts[new_fields.ADDED] += sum(event["added"] for event in lakes["auto"].logged("schema_changed"))
    run.counts[NEEDED if _needed_spark(lakes["auto"]) else NOT_NEEDED] += 1
    run.counts[WITH_RUNS] += all(map(ledger.runs_of, lakes.values()))


def _needed_spark(lake: EngineLake) -> bool:
    return bool(lake.logged("spark_needed"))


# -- what is compared


@dataclass(frozen=True, slots=True)
class _Found:
    """Of one table, without what may differ: names of data files, receipts and runs, and times."""

    letters: list[str]
    receipts: list[str]
    ledger: list[str]
    state: list[str]
    commits: list[str]
    data: list[str]


def _compare(run: Run, lakes: Mapping[str, EngineLake], step: str) -> None:
    exactly = not _needed_spark(lakes["auto"])
    run.counts[ROWS] += _compare_rows(*(lakes[name] for name in ENGINES), step)
    by_spark, by_auto = (_found_in(lakes[name], exactly=exactly) for name in ENGINES)
    for field in fields(_Found):
        _compare_lists(field.name, [getattr(by_spark, field.name), getattr(by_auto, field.name)], step)
    run.counts[LETTERS] += len(by_spark.letters)
    run.counts[ENTRIES] += len(by_spark.ledger)


def _compare_lists(what: str, of_each: Sequence[Sequence[str]], step: str) -> None:
    left, right = of_each
    if left != right:
        raise _difference(what, left, right, step)


def _difference(what: str, left: Sequence[str], right: Sequence[str], step: str) -> Failed:
    only = [*(Counter(left) - Counter(right))][:1], [*(Counter(right) - Counter(left))][:1]
    return Failed(
        f"the engines differ in {what}: {len(left)} of Spark, {len(right)} of auto; only of Spark "
        f"{only[0]!s:.1500}, only of auto {only[1]!s:.1500}",
        [step],
    )


def _compare_rows(by_spark: EngineLake, by_auto: EngineLake, step: str) -> int:
    """Returns how many there are. Only some of them are Python's objects at a time, which take far more memory."""
    left, right = by_spark.arrow_rows(), by_auto.arrow_rows()
    for start in range(0, max(left.num_rows, right.num_rows), ROWS_AT_ONCE):
        some = [[repr(row) for row in table.slice(start, ROWS_AT_ONCE).to_pylist()] for table in (left, right)]
        if some[0] != some[1]:
            raise _difference(f"rows from the {start:,}. on", *some, step)
    return left.num_rows


def _found_in(lake: EngineLake, *, exactly: bool) -> _Found:
    return _Found(
        letters=sorted(_text(letter) for letter in lake.letters()),
        receipts=sorted(map(_text, _receipts(lake))),
        ledger=ledger.in_ledger(lake),
        state=[_text([json.loads(lake.copy.read_text()), ledger.in_bases(lake)], OF_THE_STATE)],
        commits=sorted(_commits(lake, with_sizes=exactly)),
        data=sorted(_digests(lake)) if exactly else [],
    )


def _replaces(lake: EngineLake, version: int) -> bool:
    """Rows that stay in a data file others of which are replaced are written once more by the engine's own writer."""
    return lake.settings["on_overwrite"] == "replace" and any("remove" in action for action in lake.actions(version))


def _receipts(lake: EngineLake) -> Iterator[Any]:
    """With their files in the order of paths, not in that in which tasks reported."""
    for receipt in lake.receipts():
        yield {**receipt, "files": sorted(receipt["files"], key=itemgetter("path"))}


def _commits(lake: EngineLake, *, with_sizes: bool) -> Iterator[str]:
    """Of each version what it adds, unless it replaces, and for which Txn."""
    for version in lake.versions():
        replaces = _replaces(lake, version)
        for action in lake.actions(version):
            match action:
                case {"add": added} if not replaces:
                    size = added["size"] if with_sizes else None
                    yield _text([version, added["partitionValues"], size, json.loads(added["stats"] or "0")])
                case {"txn": txn}:
                    yield _text([version, txn["appId"], txn["version"]])
                case {"metaData": metadata}:
                    yield _text(
                        [version, {**metadata, "createdTime": 0, "schemaString": json.loads(metadata["schemaString"])}]
                    )
                case {"protocol": protocol}:
                    yield _text([version, protocol])


def _digests(lake: EngineLake) -> Iterator[str]:
    for version in lake.versions():
        replaces = _replaces(lake, version)
        for action in lake.actions(version):
            if "add" in action and not replaces:
                yield hashlib.sha256((lake.table / unquote(action["add"]["path"])).read_bytes()).hexdigest()


def _text(document: Any, left_out: frozenset[str] = TIMES_AND_NAMES) -> str:
    return json.dumps(_without(document, left_out), sort_keys=True)


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    return value


# -- what is broken on purpose


def _leave_a_file_out() -> Any:
    whole = AppendTransaction.commit

    def commit(self: AppendTransaction, files: Sequence[DataFile], **named: Any) -> int:
        return whole(self, files[:-1], **named)

    return patch.object(AppendTransaction, "commit", commit)


def _commit_no_statistics() -> Any:
    whole = transaction.add_actions
    return patch.object(transaction, "add_actions", lambda files: whole(replace(file, stats="") for file in files))


BREAKS: Mapping[str, Callable[[], Any]] = {
    LEFT_OUT: _leave_a_file_out,
    NO_STATISTICS: _commit_no_statistics,
    **ledger.BREAKS,
    **evolving.BREAKS,
}
