"""The shipped template, deployed and really running, through what goes wrong in its life.

Each test leaves the stack as it found it, and ends with every record of the landing bucket against every row of the
table, those of the tests before it included.
"""

import json
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.local.local_stack import local_stack
from infra.local.release import packed, release
from tests.e2e.stack_world import CONFIG, NOBODY_LOOKS, PREFIX, SOON, StackWorld, Ticking, until

pytestmark = pytest.mark.spark

DISPATCH = {"schedule": "dispatch"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackWorld]:
    folder = tmp_path_factory.mktemp("stack")
    config = folder / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=1000))
    parameters = {**SOON, **NOBODY_LOOKS, "LandingPrefix": PREFIX}
    with local_stack(config, parameters=parameters, folder=folder / "stack", retry_after_secs=1) as stack:
        yield StackWorld(stack)


def test_two_thousand_files_by_events_and_one_by_the_sweep(world: StackWorld) -> None:
    began = time.time()
    world.drop("2026-01-01", 1999)
    (unheard,) = world.drop("2026-01-01", event=False)
    world.drop("2026-01-01")
    assert world.all_in().missing == [(unheard, 0), (unheard, 1)]
    runs = len(world.stack.runs())
    world.stack.fire("SweepScheduled")
    until(lambda: len(world.stack.runs()) > runs, 120, world.diagnosis)
    assert world.all_in().good
    assert all(run["state"] == "SUCCESS" for run in world.runs_since(began))


def test_a_message_that_nobody_understands_ends_in_the_dead_letter_queue_and_holds_nobody_up(world: StackWorld) -> None:
    sqs, resources = world.stack.client("sqs"), world.stack.resources
    before = world.messages("EventsDeadLetterQueue")
    sqs.send_message(QueueUrl=resources["EventsQueue"], MessageBody="no event at all")
    world.drop("2026-01-02", 3)
    until(lambda: world.messages("EventsDeadLetterQueue") == before + 1, 120, world.diagnosis)
    assert world.all_in().good
    # What is redriven and still makes no sense comes back.
    redrive(world)
    until(lambda: world.messages("EventsQueue") == 0, 120, world.diagnosis)
    assert world.messages("EventsDeadLetterQueue") == before + 1


def test_messages_that_failed_while_the_deployment_was_broken_are_redriven_when_it_is_mended(world: StackWorld) -> None:
    stack, key = world.stack, world.stack.parameters["ConfigKey"]
    before = world.messages("EventsDeadLetterQueue")
    stack.deploy(parameters={"ConfigKey": "config-00000000.json"})
    world.drop("2026-01-03", 3)
    until(lambda: world.messages("EventsDeadLetterQueue") == before + 3, 120, world.diagnosis)
    stack.deploy(parameters={"ConfigKey": key})
    redrive(world)
    assert world.all_in().good


def test_a_run_that_fails_twice_succeeds_the_third_time(world: StackWorld) -> None:
    began = time.time()
    world.stack.orders.failures = 2
    world.drop("2026-01-04", 3)
    with Ticking(world.stack, "DispatchScheduled"):
        until(lambda: len(world.runs_since(began)) == 3, 120, world.diagnosis)
        verdict = world.all_in()
    assert verdict.good
    assert [run["state"] for run in world.runs_since(began)] == ["FAILED", "FAILED", "SUCCESS"]
    started = [json.loads(line) for line in world.stack.logs("dispatcher").splitlines() if '"run_failed"' in line]
    assert [line["failures"] for line in started[-2:]] == [1, 2]


def test_when_the_event_of_a_runs_end_is_lost_the_schedule_picks_the_backlog_up(world: StackWorld) -> None:
    began = time.time()
    world.stack.lose_job_events(True)
    try:
        world.stack.orders.failures = 1
        world.drop("2026-01-05", 3)
        until(lambda: [run["state"] for run in world.runs_since(began)] == ["FAILED"], 120, world.diagnosis)
        until(lambda: world.messages("WakeQueue") == 0, 60, world.diagnosis)
        assert world.status().backlog_files == 3
        with Ticking(world.stack, "DispatchScheduled"):
            until(lambda: world.status().backlog_files == 0, 240, world.diagnosis)
            assert world.all_in().good
    finally:
        world.stack.lose_job_events(False)


def test_many_dispatchers_at_the_same_moment_start_one_run(world: StackWorld) -> None:
    began = time.time()
    world.stack.orders.go.clear()
    try:
        world.drop("2026-01-06", 3)
        world.announced(3)
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(lambda _: world.stack.invoke("DispatcherFunction", DISPATCH), range(12)))
        assert [outcome.error for outcome in outcomes if outcome.error] == []
        until(lambda: world.messages("WakeQueue") == 0, 60, world.diagnosis)
        assert len(world.runs_since(began)) == 1
    finally:
        world.stack.orders.go.set()
    assert world.all_in().good


def test_a_stack_update_in_the_middle_of_a_run_disturbs_nothing(world: StackWorld) -> None:
    began = time.time()
    before = world.stack.parameters.get("MaxFailures", "5")
    world.drop("2026-01-07", 3)
    until(lambda: [run["state"] for run in world.runs_since(began)] == ["RUNNING"], 120, world.diagnosis)
    world.stack.deploy(parameters={"MaxFailures": "7", "LogRetentionDays": "14"})
    world.drop("2026-01-07", 3)
    try:
        assert world.all_in().good
        deployed = world.stack.client("lambda").get_function_configuration(
            FunctionName=world.stack.resources["DispatcherFunction"]
        )
        assert deployed["Environment"]["Variables"]["BLIZZARD_MAX_FAILURES"] == "7"
        assert all(run["state"] == "SUCCESS" for run in world.runs_since(began))
    finally:
        world.stack.deploy(parameters={"MaxFailures": before})


def test_a_new_release_takes_over_and_the_old_one_takes_over_again(world: StackWorld, tmp_path: Path) -> None:
    stack, old = world.stack, dict(world.stack.parameters)
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=2))
    new = release(stack.aws, config, tmp_path, packed(platform.machine().lower()))
    assert new.parameters["ConfigKey"] != old["ConfigKey"]
    for parameters in (new.parameters, old):
        began = time.time()
        stack.deploy(parameters=parameters)
        world.drop("2026-01-08", 3)
        assert world.all_in().good
        (run,) = world.runs_since(began)
        assert argument(world, run["id"], "--config").endswith(parameters["ConfigKey"])


def redrive(world: StackWorld) -> None:
    sqs, queue = world.stack.client("sqs"), world.stack.resources["EventsDeadLetterQueue"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.start_message_move_task(SourceArn=arn)


def argument(world: StackWorld, run_id: str, name: str) -> str:
    """What follows `name` among the arguments that the run was started with."""
    client = world.stack.client("emr-serverless")
    run = client.get_job_run(applicationId=world.stack.application_id, jobRunId=run_id)["jobRun"]
    words = run["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    return str(words[words.index(name) + 1])
