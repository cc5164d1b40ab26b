"""A bad day of a deployed stack: what goes wrong is found, understood and repaired by an operator with the commands of
`blizzard`. Only the bucket's notification is put back by a deployment, as `blizzard doctor` says."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.environment import variables
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.storage_options import storage_options
from infra.local.demo.audited import COMMAND
from infra.local.processes.checkout import CHECKOUT
from infra.local.stack.local_stack import local_stack
from tests.e2e.stack_world import CONFIG, FAST_PARAMETERS, PREFIX, SCHEDULES_OFF, STATE_PREFIX, StackWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

TABLE = "s3://lake/events"
OLD_DAY = "2020-01-01"
"""Its folder is closed: no sweep looks there."""
DIRTY = ('{"id":"a","n":1}', '{"n":2}', '{"id":"c","n":3}', '{"n":4}')
CLOSING = '        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}\n'


@dataclass
class Operator:
    """Somebody with a terminal, the published configuration and credentials."""

    config: Path
    environ: dict[str, str]

    def run(self, command: str, *options: str, code: int | None = 0) -> str:
        """What the command prints. `code`: its exit code; None: any."""
        words = [sys.executable, "-c", COMMAND, command, str(self.config), *options]
        done = subprocess.run(words, cwd=CHECKOUT, env=self.environ, capture_output=True, text=True, check=False)
        assert code in (None, done.returncode), f"{command} {options}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, command: str, *options: str, code: int | None = 0) -> Any:
        return json.loads(self.run(command, "--json", *options, code=code))

    def audit(self, *options: str, code: int | None = 0) -> dict[str, Any]:
        (report,) = self.ask("audit", *options, code=code)
        return dict(report)

    def troubles(self, *, code: int) -> dict[str, str]:
        """What the doctor finds, by the id of the check."""
        report = self.ask("doctor", "--stack", "blizzard", code=code)
        return {each["id"]: each["verdict"] for each in report["checks"] if each["verdict"] in ("warning", "problem")}


@dataclass
class Day:
    """What goes wrong. The names are those of files."""

    world: StackWorld
    today: str
    doubled: str = ""
    deleted: str = ""
    mixed: str = ""
    dirty: str = ""
    torn: str = ""
    lost: str = ""
    waits: str = ""

    def morning(self) -> None:
        """All is well, but for a file with two bad records and one that is torn."""
        self.dirty, self.torn = f"date={self.today}/dirty.ndjson.gz", f"date={self.today}/torn.ndjson.gz"
        self.world.drop_lines(self.dirty, *DIRTY)
        self.world.drop_lines(self.torn, '{"id":"z","n":1}', cut_bytes=4)
        self.doubled, self.deleted, self.mixed = self.world.drop(self.today, 3)
        self.world.stack.fire("SweepScheduled")
        assert self.world.wait_until_ingested().good
        self.world.drop(self.today, 2)
        assert self.world.wait_until_ingested().good

    def noon(self) -> None:
        """Somebody harms the table, the state and the bucket."""
        rows = self.table().to_pyarrow_table()
        self.table().delete(f"id = '{self.deleted}-1'")
        again = rows.filter(pc.equal(pc.struct_field(rows["_source"], "file"), self.doubled))
        write_deltalake(self.table(), again, mode="append")
        old = next(row for row in rows.to_pylist() if row["_source"]["file"] == self.mixed)
        old["_source"]["etag"] = "of before"
        write_deltalake(self.table(), pa.Table.from_pylist([old], rows.schema), mode="append")
        self.delete("receipts/", newest_only=True)
        self.delete("dead_letters/", part="torn")
        s3 = self.world.stack.client("s3")
        s3.put_bucket_notification_configuration(Bucket=self.world.stack.landing, NotificationConfiguration={})
        (self.lost,) = self.world.drop(OLD_DAY)
        (self.waits,) = self.world.drop(self.today)
        self.delete("pending/")

    def table(self) -> DeltaTable:
        settings = S3Settings.from_environment(self.world.stack.aws.environment())
        return DeltaTable(TABLE, storage_options=dict(storage_options(settings)))

    def delete(self, folder: str, *, part: str = "", newest_only: bool = False) -> None:
        """Objects of the source's state."""
        s3, prefix = self.world.stack.client("s3"), f"events/{STATE_PREFIX}/{folder}"
        found = s3.list_objects_v2(Bucket=self.world.stack.lake, Prefix=prefix)["Contents"]
        keys = sorted(each["Key"] for each in found if part in each["Key"])
        assert keys, prefix
        for key in keys[-1:] if newest_only else keys:
            s3.delete_object(Bucket=self.world.stack.lake, Key=key)

    def expect_repaired(self, row: int, record: dict[str, Any]) -> None:
        """The independent check takes the repaired record for one of the file."""
        lines = [*DIRTY]
        lines[row] = json.dumps(record)
        self.world.bodies[self.dirty] = gzip.compress("\n".join(lines).encode())


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=1000) + CLOSING)
    parameters = {**FAST_PARAMETERS, **SCHEDULES_OFF, "LandingPrefix": PREFIX}
    with local_stack(config, parameters=parameters, folder=tmp_path / "stack", retry_after_secs=1) as stack:
        yield Day(StackWorld(stack), time.strftime("%Y-%m-%d", time.gmtime()))


def test_a_bad_day_is_found_understood_and_repaired(day: Day, tmp_path: Path) -> None:
    stack = day.world.stack
    operator = Operator(tmp_path / "pipelines.yaml", {**variables(), **stack.aws.environment()})
    day.morning()
    well = operator.audit()
    assert (well["verdict"], well["notices"]) == ("good", [])
    before = operator.troubles(code=0)
    day.noon()
    is_found_and_understood(day, operator, before)

    put_the_notification_back(day)
    assert "aws.notifications" not in operator.troubles(code=0)
    (rebuilt,) = operator.ask("rebuild", "--yes")["sources"]
    assert (rebuilt["verdict"], [each["kind"] for each in rebuilt["problems"]]) == ("rebuilt", ["ledger_incomplete"])
    repair_the_record(day, operator, tmp_path / "repaired.ndjson")
    harmed = [word for path in (day.doubled, day.deleted, day.mixed) for word in ("--path", path)]
    (replaced,) = operator.ask("replace", *harmed)
    assert (replaced["counts"]["done"], replaced["rows"]) == (3, 6)
    assert operator.audit("--repair", code=1)["repaired"] == 2
    stack.fire("SweepScheduled")
    stack.fire("DispatchScheduled")
    day.world.until(lambda: not is_waiting(operator))

    after = operator.audit("--sample", "100")
    kinds = [each["kind"] for each in after["notices"]]
    assert (after["verdict"], kinds, after["objects"]) == ("notes", ["rows_uncounted"], len(day.world.bodies)), (
        "of the files whose receipt was lost nobody but the sample knows how many rows they had"
    )
    assert (after["sample"]["given"], after["sample"]["differ"]) == (1, [])
    assert operator.troubles(code=0).keys() - before.keys() <= {"table.other-writers", "state.lost-events"}
    day.expect_repaired(1, {"id": "b", "n": 2})
    verdict = day.world.wait_until_ingested()
    assert verdict.good, [*verdict.lines()]
    assert verdict.rows_out == after["rows"]["found"]


def is_found_and_understood(day: Day, operator: Operator, before: dict[str, str]) -> None:
    found = operator.troubles(code=1)
    assert found["aws.notifications"] == "problem"
    assert {"table.other-writers", "state.receipts"} <= found.keys() - before.keys()
    report = operator.audit(code=1)
    assert [each["path"] for each in report["names"]["missing"]] == [day.lost]
    assert [each["path"] for each in report["names"]["doubled"]] == [day.doubled]
    assert [each["path"] for each in report["names"]["rows_deleted"]] == [day.deleted]
    assert [each["path"] for each in report["names"]["other_content"]] == [day.mixed]
    assert [each["path"] for each in report["names"]["letters_lost"]] == [day.torn]
    kinds = {each["kind"] for each in report["notices"]}
    assert kinds == {"rows_deleted", "other_content", "letters_lost", "ledger_incomplete", "manifest_wiped"}
    lives = {life["path"]: life for life in operator.ask("files")}
    states = {path: lives[path]["state"] for path in (day.lost, day.waits, day.torn, day.dirty)}
    assert states == {day.lost: "missing", day.waits: "pending", day.torn: "dead_lettered", day.dirty: "committed"}
    assert "truncated" in lives[day.torn]["reason"]
    (letters,) = operator.ask("letters", "--details")
    assert [(letter["path"], letter["row"]) for letter in letters["letters"]] == [(day.dirty, 1), (day.dirty, 3)]


def put_the_notification_back(day: Day) -> None:
    """As the runbook says for the mode `create`: the stack sees only what differs from its last deployment."""
    day.world.stack.deploy(parameters={"LandingPrefix": "elsewhere/"})
    day.world.stack.deploy(parameters={"LandingPrefix": PREFIX})


def repair_the_record(day: Day, operator: Operator, file: Path) -> None:
    """One of the two; the other one stays refused."""
    (letters,) = operator.ask("letters", "--details", "--path", "**/dirty*")
    letter = next(each for each in letters["letters"] if each["row"] == 1)
    file.write_text(json.dumps({**letter, "raw": json.dumps({**json.loads(letter["raw"]), "id": "b"})}))
    (replayed,) = operator.ask("replay", "--records", str(file), "--engine", "local")
    assert (replayed["counts"]["done"], replayed["rows"]) == (1, 1)
    (life,) = operator.ask("files", day.dirty)
    assert (life["announced_by"], [each["rows"] for each in life["earlier"]]) == ("repair", [2])


def is_waiting(operator: Operator) -> bool:
    report = operator.audit(code=None)
    return bool(report["missing"] or report["pending"])
