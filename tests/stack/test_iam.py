"""The deployed roles against the recorded requests: every call is allowed, and every grant is used."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from blizzard.dispatch.run_records import Phase, RunLog
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.merge import LedgerSettings
from blizzard.log import silent
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipts
from infra.local.stack.local_stack import LocalStack, local_stack
from infra.probe.__main__ import probe
from tests.e2e.stack_world import CONFIG, FAST_PARAMETERS, PREFIX, SCHEDULES_OFF, StackWorld
from tests.stack.calls import calls_of
from tests.stack.policies import Call, Grant, grants_of, not_granted, unused_grants

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROLES = {
    "collector": "CollectorRole",
    "dispatcher": "DispatcherRole",
    "sweeper": "SweeperRole",
    "job": "JobRole",
}
BY_THE_SERVICE = {
    "Log": "Lambda and EMR Serverless write the logs, with the role",
    "FindLogGroup": "EMR Serverless looks for the job's log group, with the role",
    "SayWhatFailed": "Lambda sends what failed, with the role",
    "TakeEvents": "Lambda polls the queue, with the role",
    "TakeWakes": "Lambda polls the queue, with the role",
}
"""Grants by the Sid of their statement, which services use and our code does not."""
WHEN_SOMETHING_BREAKS = {
    ("WriteLake", "s3:AbortMultipartUpload"): "S3A's answer to a write that broke off",
    ("ListLanding", "s3:ListBucket"): "a repair of the state asks for sizes; a refused read, whether the object exists",
    ("FindArtifacts", "s3:ListBucket"): "spark-submit's answer to an artifact that is not where it looks",
    ("CreateSegments", "s3:GetObject"): "a refused write is looked at: it may be one's own, whose answer was lost",
}
"""Statement and action that are used only after failures."""
MORE = """settle_delay_secs: 0
        new_fields: add
        on_overwrite: replace
        limits: {max_tracked_files: 1}"""
DATABASE = "analytics"
RECORDS = 61
"""Enough run records that the dispatcher trims them."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack in which every regular operation has happened."""
    folder = tmp_path_factory.mktemp("iam")
    config = folder / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=2).replace("settle_delay_secs: 0", MORE))
    parameters = {
        **FAST_PARAMETERS,
        **SCHEDULES_OFF,
        "LandingPrefix": PREFIX,
        "LakePrefix": "events/",
        "RunTags": "team=data",
        "GlueDatabase": DATABASE,
    }
    with local_stack(config, parameters=parameters, folder=folder / "stack", retry_after_secs=1) as stack:
        stack.client("glue").create_database(DatabaseInput={"Name": DATABASE})
        _a_life(StackWorld(stack))
        yield stack


def _a_life(world: StackWorld) -> None:
    """Files by events and by a sweep, in several batches; a new column; an overwritten file; trimmed run records; a
    late sweep while segments wait. Two runs, and a probe."""
    assert not world.stack.invoke("SweeperFunction", {"schedule": "sweep"}).error  # from then on it counts commits
    with world.runs_on_hold():
        world.drop("2026-01-01", 5)
        world.drop_lines("date=2026-01-01/coupon.ndjson.gz", '{"id": "coupon", "n": 1, "coupon": "SPRING"}')
        (path,) = world.drop("2026-01-02", rows=1)
        world.wait_for_pending(7)
        world.until(world.queues_are_empty)
    assert world.wait_until_ingested().good
    _write_run_records(world)
    _merge_receipts(world)
    with world.runs_on_hold():
        world.stack.drop(path, world.bodies[path], event=False)
        world.drop("2026-01-03", event=False)
        runs = len(world.stack.runs())
        world.stack.fire("SweepScheduled")
        world.until(lambda: len(world.stack.runs()) > runs)
        world.drop("2026-01-04")
        world.until(world.queues_are_empty)
        world.until(lambda: _swept_late(world))
    assert world.wait_until_ingested().good
    found = probe(world.stack.aws, world.stack.stack.name, run_secs=600, log_secs=60, on_state=lambda *_: None)
    assert found.problems == []


def _swept_late(world: StackWorld) -> bool:
    outcome = world.stack.invoke("SweeperFunction", {"schedule": "sweep"})
    assert not outcome.error
    return '"kind":"late"' in outcome.log


def _merge_receipts(world: StackWorld) -> None:
    """As a job does after some tens of commits, of a source with many folders: the checkpoint's copy names a run of the
    ledger, and a base. Only the newest commit is not in the run, but in its receipt."""
    identity = SourceIdentity("events", "landing", "_blizzard/events_landing")
    keeper = LedgerKeeper(
        world.lake,
        identity,
        ask_table=lambda sequences: [],
        clock=time.time,
        new_id=lambda: "by-hand",
        log=silent,
        settings=LedgerSettings(commits=1, in_background=False),
    )
    codec = CheckpointCodec(world.lake, identity)
    checkpoint = codec.read_copy()
    assert checkpoint.receipt is not None
    previous = Receipts(world.lake, identity.state_prefix).get(checkpoint.receipt).previous
    before = replace(checkpoint, sequence=checkpoint.sequence - 1, receipt=previous)
    keeper.refs(before)
    merged = keeper.refs(before)
    assert merged
    many = {f"{'x' * 700}{n:02d}": "a" for n in range(12)}
    large = replace(checkpoint, ledger=merged, partition_watermarks={**checkpoint.partition_watermarks, **many})
    large = codec.with_base(large, sequence=checkpoint.sequence, new_id=lambda: "by-hand")
    assert large.bases
    world.lake.put(identity.copy_key, codec.encode(large).encode())


def _write_run_records(world: StackWorld) -> None:
    log = RunLog(world.lake, "events", new_id=lambda: "by-hand")
    # The dispatcher writes one more record, of the run's end.
    world.until(lambda: (latest := log.latest()) is not None and latest.phase is Phase.SUCCEEDED)
    for _ in range(RECORDS):
        latest = log.latest()
        assert latest is not None
        log.append(replace(latest, number=latest.number + 1), now_ts=time.time())


def grants_of_role(stack: LocalStack, role: str) -> list[Grant]:
    iam, name = stack.client("iam"), stack.resources[role]
    assert iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"] == []
    names = iam.list_role_policies(RoleName=name)["PolicyNames"]
    return grants_of(iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"] for each in names)


def _calls(stack: LocalStack, principal: str) -> list[Call]:
    return [call for request in stack.requests() if request["principal"] == principal for call in calls_of(request)]


@pytest.mark.parametrize("principal", ROLES)
def test_a_role_allows_every_call_that_its_part_makes(stack: LocalStack, principal: str) -> None:
    calls = _calls(stack, principal)
    assert len(calls) > 3
    assert not_granted(grants_of_role(stack, ROLES[principal]), calls) == []


@pytest.mark.parametrize("principal", ROLES)
def test_a_role_allows_nothing_that_its_part_never_does(stack: LocalStack, principal: str) -> None:
    needed = [
        grant
        for grant in grants_of_role(stack, ROLES[principal])
        if grant.sid not in BY_THE_SERVICE and (grant.sid, grant.action) not in WHEN_SOMETHING_BREAKS
    ]
    assert unused_grants(needed, _calls(stack, principal)) == []


def test_every_exemption_matches_a_grant(stack: LocalStack) -> None:
    grants = [grant for role in ROLES.values() for grant in grants_of_role(stack, role)]
    assert BY_THE_SERVICE.keys() <= {grant.sid for grant in grants}
    assert WHEN_SOMETHING_BREAKS.keys() <= {(grant.sid, grant.action) for grant in grants}


def test_only_known_principals_send_requests(stack: LocalStack) -> None:
    """Requests of an unknown principal would be compared with no role."""
    others = {request["principal"] for request in stack.requests()} - ROLES.keys()
    assert others <= {"operator", "local", "cloudformation", "logs", "emr-serverless"}


def test_the_table_of_the_pipeline_is_in_the_catalog(stack: LocalStack) -> None:
    [table] = stack.client("glue").get_tables(DatabaseName=DATABASE)["TableList"]
    assert (table["Name"], table["StorageDescriptor"]["Location"]) == ("events", f"s3://{stack.lake}/events")
