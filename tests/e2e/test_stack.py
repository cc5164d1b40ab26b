"""The shipped template, deployed and running, with failures of its parts.

Each test restores the stack, and at its end compares every record of the landing bucket with every row of the table,
including those of earlier tests.
"""

import base64
import gzip
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.environment import variables
from infra.local.deploy.release import LINKED, TEMPLATE, earlier_release, pack, release
from infra.local.deploy.stack_client import StackFailed
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import REGION
from infra.local.stack.local_stack import LocalStack, local_stack
from infra.package.build import ARCHITECTURES
from infra.stop.stop import Waiting, stop
from infra.template.translate import translate
from tests.e2e.stack_world import CONFIG, FAST_PARAMETERS, PREFIX, SCHEDULES_OFF, ScheduleTicker, StackWorld
from tests.stack.calls import calls_of
from tests.stack.policies import not_granted, unused_grants
from tests.stack.test_iam import grants_of_role

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

DISPATCH = {"schedule": "dispatch"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackWorld]:
    folder = tmp_path_factory.mktemp("stack")
    config = folder / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=1000))
    parameters = {**FAST_PARAMETERS, **SCHEDULES_OFF, "LandingPrefix": PREFIX}
    with local_stack(config, parameters=parameters, folder=folder / "stack", retry_after_secs=1) as stack:
        yield StackWorld(stack)


def test_events_and_a_sweep_ingest_every_file_and_bad_input_is_dead_lettered(world: StackWorld) -> None:
    started_ts = time.time()
    bad_records = drop_bad_files(world)
    repeated, *_ = world.drop("2026-01-01", 99)
    world.stack.drop(repeated, world.bodies[repeated])
    (without_event,) = world.drop("2026-01-01", event=False)
    world.drop("2026-01-01")
    verdict = world.wait_until_ingested()
    assert verdict.missing == [(without_event, 0), (without_event, 1)]
    assert [(letter["path"], letter.get("row")) for letter in verdict.dead_letters] == bad_records
    runs = len(world.stack.runs())
    world.stack.fire("SweepScheduled")
    world.until(lambda: len(world.stack.runs()) > runs)
    assert world.wait_until_ingested().good
    assert all(run["state"] == "SUCCESS" for run in world.runs_since(started_ts))
    for function in world.stack.functions.functions.values():
        assert 0 < function.peak_mb < function.settings.memory_mb


def test_messages_that_failed_go_to_the_dead_letter_queue_and_are_redriven(world: StackWorld) -> None:
    """While the deployment is broken all messages fail; after its repair only the invalid one fails."""
    stack, key = world.stack, world.stack.parameters["ConfigKey"]
    world.until(world.queues_are_empty)  # the deployment itself sends a test event
    stack.deploy(parameters={"ConfigKey": "config-00000000.json"})
    stack.client("sqs").send_message(QueueUrl=stack.resources["EventsQueue"], MessageBody="no event at all")
    world.drop("2026-01-02", 3)
    world.until(lambda: world.messages("EventsDeadLetterQueue") == 4)
    stack.deploy(parameters={"ConfigKey": key})
    redrive(world)
    assert world.wait_until_ingested().good
    world.until(lambda: world.messages("EventsDeadLetterQueue") == 1)
    stack.client("sqs").purge_queue(QueueUrl=stack.resources["EventsDeadLetterQueue"])


def test_a_run_that_fails_twice_succeeds_the_third_time(world: StackWorld) -> None:
    started_ts = time.time()
    killed: list[str | None] = []

    def kill_in_the_midst_of_a_batch(line: str) -> None:
        if '"batch_planned"' in line and not killed:
            killed.append(world.stack.kill_run())

    world.stack.listen("job", kill_in_the_midst_of_a_batch)
    world.stack.run_control.fail_next = 1
    drop_while_runs_are_held(world, "2026-01-04", rows=20_000)
    with ScheduleTicker(world.stack, "DispatchScheduled"):
        world.until(lambda: len(world.runs_since(started_ts)) == 3)
        verdict = world.wait_until_ingested()
    assert verdict.good
    runs = world.runs_since(started_ts)
    assert [run["state"] for run in runs] == ["FAILED", "FAILED", "SUCCESS"]
    assert killed == [runs[1]["id"]]
    world.until(lambda: failures(world)[-2:] == [1, 2])


def test_the_schedule_starts_a_run_after_the_event_of_a_runs_end_is_lost(world: StackWorld) -> None:
    started_ts = time.time()
    world.stack.lose_job_events(True)
    try:
        world.stack.run_control.fail_next = 1
        drop_while_runs_are_held(world, "2026-01-05")
        world.until(lambda: [run["state"] for run in world.runs_since(started_ts)] == ["FAILED"])
        assert world.status().backlog_files == 3
        with ScheduleTicker(world.stack, "DispatchScheduled"):
            world.until(lambda: world.status().backlog_files == 0)
            assert world.wait_until_ingested().good
    finally:
        world.stack.lose_job_events(False)


def test_concurrent_dispatchers_start_one_run_and_a_stack_update_does_not_disturb_it(world: StackWorld) -> None:
    started_ts = time.time()
    before = world.stack.parameters.get("MaxFailures", "5")
    with world.runs_on_hold():
        world.drop("2026-01-06", 3)
        world.wait_for_pending(3)
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(lambda _: world.stack.invoke("DispatcherFunction", DISPATCH), range(12)))
        assert [outcome.error for outcome in outcomes if outcome.error] == []
        world.until(world.queues_are_empty)
        assert len(world.runs_since(started_ts)) == 1
    with world.driver_stopped():
        world.until(lambda: [run["state"] for run in world.runs_since(started_ts)] == ["RUNNING"])
        world.stack.deploy(parameters={"MaxFailures": "7"})
        assert [run["state"] for run in world.runs_since(started_ts)] == ["RUNNING"]
    deployed = world.stack.client("lambda").get_function_configuration(
        FunctionName=world.stack.resources["DispatcherFunction"]
    )
    assert deployed["Environment"]["Variables"]["BLIZZARD_MAX_FAILURES"] == "7"
    assert world.wait_until_ingested().good
    assert [run["state"] for run in world.runs_since(started_ts)] == ["SUCCESS"]
    world.stack.deploy(parameters={"MaxFailures": before})


def test_a_stopped_application_takes_a_change_and_nothing_is_missed(world: StackWorld) -> None:
    stack, said = world.stack, list[str]()
    with world.runs_on_hold():
        world.drop("2026-01-07", 3)
        world.until(lambda: len(world.active_runs()) == 1)
        with pytest.raises(StackFailed, match="JobApplication"):
            stack.deploy(parameters={"MaximumVcpus": "20"})

        def wait(secs: float) -> None:
            stack.run_control.may_start.set()
            time.sleep(min(secs, 0.5))

        application = stop(stack.stack.name, stack.aws, Waiting(time.monotonic, wait, said.append, 600), cancel=False)
    assert application == stack.application_id
    assert [line for line in said if "waiting for active runs" in line]
    world.drop("2026-01-07", 2)
    world.wait_for_pending(2)
    assert world.active_runs() == []
    stack.deploy(parameters={"MaximumVcpus": "20", "Dispatching": "on"})
    found = stack.client("emr-serverless").get_application(applicationId=application)["application"]
    assert found["maximumCapacity"]["cpu"] == "20 vCPU"
    with ScheduleTicker(stack, "DispatchScheduled"):
        assert world.wait_until_ingested().good


def test_a_release_takes_over_in_another_application_and_a_rollback_undoes_it(
    world: StackWorld, tmp_path: Path
) -> None:
    stack, first = world.stack, dict(world.stack.parameters)
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=2))
    new = release(stack.aws, config, tmp_path / "new", other_sources(tmp_path / "sources"))
    assert all(new.parameters[name] != first[name] for name in ("ConfigKey", "JobArchiveKey"))
    old = earlier_release(stack.aws, stack.release_id, tmp_path / "old")
    shared = {"name": "shared", "releaseLabel": new.parameters["ReleaseLabel"], "type": "SPARK"}
    application = stack.client("emr-serverless").create_application(**shared)["applicationId"]
    for taken, application_id in ((new, application), (old, "")):
        started_ts = time.time()
        parameters = {**taken.parameters, "ApplicationId": application_id}
        stack.deploy(translate(TEMPLATE, taken.function_zip_uris), parameters)
        assert ("JobApplication" in stack.resources) == (application_id == "")
        drop_while_runs_are_held(world, "2026-01-08")
        assert world.wait_until_ingested().good
        (run,) = world.runs_since(started_ts)
        asked = stack.client("emr-serverless").get_job_run(applicationId=stack.application_id, jobRunId=run["id"])
        submitted = str(asked["jobRun"]["jobDriver"])
        assert all(taken.parameters[name] in submitted for name in ("ConfigKey", "JobArchiveKey", "JobEntryKey"))
        deployed = taken.function_zip_uris.keys() & stack.resources.keys()
        assert taken.function_zip_uris.keys() - deployed == {"AttacherFunction"}  # no bucket is attached
        for function in deployed:
            assert deployed_sha256(world, function) in taken.function_zip_uris[function]
    assert {name: stack.parameters[name] for name in first} == first


def test_a_probe_finds_that_all_is_well_and_leaves_no_trace(world: StackWorld) -> None:
    assert world.stack.outputs["ProbeCommand"] == f"make probe STACK={world.stack.stack.name}"
    world.until(lambda: not world.active_runs())
    started_ts, before = time.time(), objects_of_the_lake(world)
    done = probe(world)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    assert (report["ok"], report["problems"]) == (True, [])
    assert report["log"]["arrived"]
    found = report["probe"]
    assert found["log_store"] == {"s3": "io.github.blizzard.logstore.ConditionalS3LogStore"}
    assert (found["written"]["second_put_refused"], found["written"]["numbers_fenced"]) == (True, True)
    assert found["executor"]["missing"] == {}
    assert objects_of_the_lake(world) == before
    world.until(lambda: '"run_ignored"' in world.stack.logs("dispatcher"))
    assert [run["name"] for run in world.runs_since(started_ts)] == ["probe-of-blizzard"]


def test_a_probe_whose_run_fails_says_why(world: StackWorld) -> None:
    world.stack.run_control.fail_next = 1
    done = probe(world)
    (problem,) = json.loads(done.stdout)["problems"]
    assert (done.returncode, problem["check"]) == (1, "run")
    assert "this run was made to fail" in problem["found"]


def probe(world: StackWorld) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "infra.probe", "--stack", world.stack.stack.name, "--json"]
    environment = {**variables(), **world.stack.aws.environment("operator")}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)


def objects_of_the_lake(world: StackWorld) -> dict[str, str]:
    pages = world.stack.client("s3").get_paginator("list_objects_v2").paginate(Bucket=world.stack.lake)
    return {found["Key"]: found["ETag"] for page in pages for found in page.get("Contents", ())}


MORE_CONFIG = """\
  others:
    table_uri: s3://lake/others
    sources:
      theirs: {uri: "s3://theirs/in/day=1/", pattern: "*.gz", schema: "id STRING NOT NULL, n BIGINT"}
"""


def test_a_bucket_with_notifications_of_others_is_attached_ingested_and_left_as_it_was(
    world: StackWorld, tmp_path: Path
) -> None:
    stack, first, s3 = world.stack, dict(world.stack.parameters), world.stack.client("s3")
    before = someone_elses_bucket(world)
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=1000) + MORE_CONFIG)
    new = release(stack.aws, config, tmp_path / "new", pack(platform.machine().lower()))
    assert (new.parameters["LandingBucketName2"], new.parameters["LandingPrefix2"]) == ("theirs", "in/day=1/")
    requests = stack.requests()[-1]["number"]
    stack.deploy(translate(TEMPLATE, new.function_zip_uris), new.parameters)
    try:
        both = notifications(world)
        theirs, own = both["QueueConfigurations"]
        assert (own["Id"], theirs) == ("blizzard-blizzard-AttachedLanding2", before["QueueConfigurations"][0])
        assert {**both, "QueueConfigurations": [theirs]} == before
        body = gzip.compress(b'{"id": "x", "n": 1}\n')
        s3.put_object(Bucket="theirs", Key="in/day=1/x.gz", Body=body)
        world.until(lambda: rows_of_others(world) == [{"id": "x", "n": 1}])
        assert permissions_missing(stack, requests) == []
    finally:
        stack.deploy(parameters={**first, "LandingBucketName2": "", "LandingPrefix2": ""})
    assert notifications(world) == before
    assert "AttacherFunction" not in stack.resources


def someone_elses_bucket(world: StackWorld) -> Mapping[str, Any]:
    """A bucket `theirs` that tells EventBridge and a queue of its owner, about other objects. Returns what it has."""
    s3, sqs = world.stack.client("s3"), world.stack.client("sqs")
    s3.create_bucket(Bucket="theirs", CreateBucketConfiguration={"LocationConstraint": REGION})
    url = sqs.create_queue(QueueName="theirs")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    images = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "images/"}]}}
    queue = {"Id": "their-images", "QueueArn": arn, "Events": ["s3:ObjectCreated:*"], "Filter": images}
    configuration = {"EventBridgeConfiguration": {}, "QueueConfigurations": [queue]}
    s3.put_bucket_notification_configuration(Bucket="theirs", NotificationConfiguration=configuration)
    return notifications(world)


def notifications(world: StackWorld) -> dict[str, Any]:
    found = world.stack.client("s3").get_bucket_notification_configuration(Bucket="theirs")
    return {name: value for name, value in found.items() if name != "ResponseMetadata"}


def rows_of_others(world: StackWorld) -> list[dict[str, Any]]:
    options = {**world.stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
    if not DeltaTable.is_deltatable("s3://lake/others", options):
        return []
    return DeltaTable("s3://lake/others", storage_options=options).to_pyarrow_table(columns=["id", "n"]).to_pylist()


def permissions_missing(stack: LocalStack, since: int) -> list[str]:
    """What the roles did not allow of what was asked since then, and what the attacher may and did not do."""
    requests = stack.requests(since)
    asked = {
        principal: [call for it in requests if it["principal"] == principal for call in calls_of(it)]
        for principal in ("attacher", "sweeper", "job")
    }
    grants = {principal: grants_of_role(stack, f"{principal.capitalize()}Role") for principal in asked}
    assert asked["attacher"]
    assert asked["job"]
    refused = [text for principal, calls in asked.items() for text in not_granted(grants[principal], calls)]
    own = [grant for grant in grants["attacher"] if grant.sid != "Log"]
    return refused + unused_grants(own, asked["attacher"])


def drop_bad_files(world: StackWorld) -> list[tuple[str, int | None]]:
    """A key that needs encoding, a truncated file and two broken records. Returns the expected dead letters."""
    day = "date=2026-01-01"
    good = [json.dumps({"id": "good", "n": 1}), json.dumps({"id": "also good", "n": 2})]
    world.drop_lines(f"{day}/a key + 100% é.ndjson.gz", *good)
    world.drop_lines(f"{day}/cut.ndjson.gz", *good, cut_bytes=6)
    world.drop_lines(f"{day}/lines.ndjson.gz", good[0], "{broken", '{"n": 1}', good[1])
    return [(f"{day}/cut.ndjson.gz", None), (f"{day}/lines.ndjson.gz", 1), (f"{day}/lines.ndjson.gz", 2)]


def drop_while_runs_are_held(world: StackWorld, day: str, *, rows: int = 2) -> None:
    """Three files whose events all arrive before the run starts, so that no second run is needed."""
    with world.runs_on_hold():
        world.drop(day, 3, rows=rows)
        world.wait_for_pending(3)
        world.until(world.queues_are_empty)


def failures(world: StackWorld) -> list[int]:
    """The number of consecutive failures, as the dispatcher logs it."""
    lines = [line for line in world.stack.logs("dispatcher").splitlines() if '"run_failed"' in line]
    return [json.loads(line)["failures"] for line in lines]


def other_sources(root: Path) -> Path:
    """Packed from sources with one changed line in every bundle."""
    root.mkdir()
    for name in LINKED:
        source = CHECKOUT / name
        if name in ("blizzard", "functions", "spark_job"):
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / name).symlink_to(source)
    with (root / "blizzard" / "errors.py").open("a") as file:
        file.write("# the next release\n")
    # In its own process, which imports these modules and not the checkout's. Less compression takes half of the time.
    make = "from pathlib import Path; from infra.package import archives, build; archives.LEVEL = 1"
    make += f"; build.package({architecture()!r}, Path.cwd())"
    subprocess.run([sys.executable, "-c", make], cwd=root, check=True)
    return root


def architecture() -> str:
    return ARCHITECTURES[platform.machine().lower()]


def deployed_sha256(world: StackWorld, function: str) -> str:
    """The hash as in artifact keys: the first 16 hexadecimal digits."""
    found = world.stack.client("lambda").get_function_configuration(FunctionName=world.stack.resources[function])
    return base64.b64decode(found["CodeSha256"]).hex()[:16]


def redrive(world: StackWorld) -> None:
    sqs, queue = world.stack.client("sqs"), world.stack.resources["EventsDeadLetterQueue"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.start_message_move_task(SourceArn=arn)
