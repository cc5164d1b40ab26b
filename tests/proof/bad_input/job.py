"""The hostile files and keys through the real job: one batch, in which every record is a row or a dead letter, and
counted."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from blizzard.environment import temporary_variables
from blizzard.state.dead_letters import Stage
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.processes.server_process import REGION, local_aws
from spark_job.engines.spark.engine import SparkEngine
from spark_job.loop.ingest import Totals
from spark_job.ports.reader import Outcome
from spark_job.wiring import source_job
from tests.proof.bad_input.compare import compare
from tests.proof.bad_input.corpus import FILES, GOOD, KEYS, TEXTS
from tests.proof.bad_input.places import tree
from tests.proof.bad_input.random_input import random_files, random_texts
from tests.proof.bad_input.reader import LIMITS, Found
from tests.proof.bad_input.records import DDL, PARTITION
from tests.proof.bad_input.stores import CANARY, linked
from tests.proof.campaign import Failed, Run
from tests.proof.job_engines import BY, JOBS_OF
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import Lake, run

TABLE = {"partition_by": [PARTITION]}
SETTINGS = {"schema": DDL, "limits": asdict(LIMITS)}
REAL_JOB = "records of the real job"
FEW_FOLDERS = [key for key in KEYS if key.count("/") < 20]
"""A sweep lists each folder; 508 nested folders would take as long as everything else together."""

Spark = Callable[[], SparkSession]


@dataclass(frozen=True, slots=True)
class Landing:
    """An empty bucket of this S3."""

    bucket: str
    s3: S3Settings


def check_real_job(proof: Run, folder: Path, spark: Spark) -> None:
    """All listed files, random files and texts, and each key on S3. Raises Failed."""
    rng = proof.rng(0)
    files = {f"by-chance/{path}": body for path, body in random_files(rng).items()}
    proof.say("hostile files through the real job")
    texts = random_texts(rng)
    counted = 0
    for engine in JOBS_OF:
        of_engine = check_files(_folder(folder, f"files-{engine}"), spark, files, engine)
        proof.say(f"hostile texts through the real job, engine {engine}")
        of_engine += check_texts(_folder(folder, f"texts-{engine}"), spark, texts, engine)
        proof.counts[f"{REAL_JOB} with {BY[engine]}"] += of_engine
        counted += of_engine
    proof.say("hostile keys on S3 through the real job")
    with local_aws() as aws:
        landing = Landing("hostile-keys", S3Settings(aws.endpoint, REGION))
        where = {"LocationConstraint": REGION}
        aws.client("s3").create_bucket(Bucket=landing.bucket, CreateBucketConfiguration=where)
        with temporary_variables(aws.environment()), _told_to_tasks(spark(), aws.environment()):
            counted += check_keys(_folder(folder, "keys"), spark, landing, KEYS)
    proof.counts[REAL_JOB] += counted


def check_files(folder: Path, spark: Spark, more: Mapping[str, bytes], engine: str = "spark") -> int:
    """On local files, with every key that a folder can hold, next to links that lead out of it."""
    (folder / "outside").mkdir()
    (folder / "outside" / "canary.ndjson").write_bytes(CANARY)
    lake = EngineLake(folder, spark, SETTINGS, TABLE, chosen=engine)
    lake.landing().mkdir()
    linked(lake.landing())
    files = {hostile.name: hostile.body for hostile in FILES} | dict(more)
    for path, body in files.items():
        lake.put_bytes(path, body)
    files |= {key: GOOD for key in FEW_FOLDERS if _holds(lake.landing(), key)}
    before = _outside(folder)
    with closing(lake):
        totals = lake.run()
        again = lake.run().files
    after = _outside(folder)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    if stray := changed - {"landing", "unfinished"}:
        raise Failed(f"the job changed what lies outside of its table: {sorted(stray)[:5]!a}")
    checked = _checked(files, lake, totals)
    if again:
        raise Failed(f"the next job took {again} files once more")
    return checked


def check_texts(folder: Path, spark: Spark, more: Mapping[str, bytes], engine: str = "spark") -> int:
    lake = EngineLake(folder, spark, {"format": "text", "schema": None, "limits": asdict(LIMITS)}, chosen=engine)
    files = {hostile.name: hostile.body for hostile in TEXTS} | dict(more)
    for path, body in files.items():
        lake.put_bytes(path, body)
    with closing(lake):
        return _checked(files, lake, lake.run(), is_text=True)


def check_keys(folder: Path, spark: Spark, landing: Landing, keys: Sequence[str]) -> int:
    """With the S3 clients of the job; the session's workers have the credentials."""
    store = S3Store(landing.bucket, "", landing.s3)
    files = {key: GOOD * 2 + b"broken\n" if len(key) % 2 else b"\xff" for key in keys}
    for key, body in files.items():
        store.put(key, body)
    lake = Lake(folder, spark, {**SETTINGS, "uri": f"s3://{landing.bucket}/"}, TABLE)
    (described,) = lake.config().sources()
    totals = run(source_job(*described, engine=SparkEngine(spark), s3=landing.s3, log=lake._note))
    return _checked(files, lake, totals)


def _checked(files: Mapping[str, bytes], lake: Lake, totals: Totals, *, is_text: bool = False) -> int:
    """Returns the number of records in a row or a dead letter."""
    found = _found_in(lake)
    compare(files, found, is_text=is_text)
    of_files = sum("row" not in letter for letter in found.letters)
    expected = (len(found.outcomes), len(found.rows), of_files, len(found.letters) - of_files)
    if (said := (totals.files, totals.rows, totals.dead_files, totals.dead_records)) != expected:
        raise Failed(f"the job counted {said} files, rows, dead files and dead records; expected {expected}")
    return len(found.rows) + len(found.letters)


def _found_in(lake: Lake) -> Found:
    """Reads with another engine, and compares the counts of each file with the receipts."""
    letters = lake.letters()
    dead = {letter["path"]: Stage(letter["stage"]) for letter in letters if "row" not in letter}
    outcomes = [
        Outcome(
            line["path"],
            line["etag"],
            line["size"],
            rows=line["rows"],
            dead_records=line["dead_records"],
            stage=dead.get(line["path"]),
            error=line["error"],
        )
        for line in _receipts(lake)
    ]
    return Found(outcomes, lake.rows(), [], letters)


def _receipts(lake: Lake) -> Iterable[dict[str, Any]]:
    for receipt in lake.receipts():
        yield from receipt["files"]


def _outside(folder: Path) -> dict[str, str]:
    """Of everything except the table."""
    return {name: state for name, state in tree(folder).items() if not name.startswith("table")}


def _holds(folder: Path, key: str) -> bool:
    """Whether a local folder can hold a file with this key, and lists it under this key."""
    try:
        LocalStore(folder).put(key, GOOD)
    except Exception:  # noqa: BLE001 - names that the product refuses are seen elsewhere
        return False
    return True


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _told_to_tasks(spark: SparkSession, environment: Mapping[str, str]) -> Iterator[None]:
    """Tasks that start within the block have these environment variables."""
    of_tasks = spark.sparkContext.environment
    before = dict(of_tasks)
    of_tasks.update(environment)
    try:
        yield
    finally:
        of_tasks.clear()
        of_tasks.update(before)
