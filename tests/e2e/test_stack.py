"""The shipped template, deployed and really running, through what goes wrong in its life.

Each test leaves the stack as it found it, and ends with every record of the landing bucket against every row of the
table, those of the tests before it included.
"""

import base64
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.local.deploy.release import ARCHITECTURE, LINKED, TEMPLATE, earlier_release, release
from infra.local.processes.process import CHECKOUT
from infra.local.stack.local_stack import local_stack
from infra.template.translate import translate
from tests.e2e.stack_world import CONFIG, NOBODY_LOOKS, PREFIX, SOON, StackWorld, Ticking

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

DISPATCH = {"schedule": "dispatch"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackWorld]:
    folder = tmp_path_factory.mktemp("stack")
    config = folder / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=1000))
    parameters = {**SOON, **NOBODY_LOOKS, "LandingPrefix": PREFIX}
    with local_stack(config, parameters=parameters, folder=folder / "stack", retry_after_secs=1) as stack:
        yield StackWorld(stack)


def test_five_hundred_files_by_events_and_one_by_the_sweep(world: StackWorld) -> None:
    began = time.time()
    world.drop("2026-01-01", 499)
    (unheard,) = world.drop("2026-01-01", event=False)
    world.drop("2026-01-01")
    assert world.all_in().missing == [(unheard, 0), (unheard, 1)]
    runs = len(world.stack.runs())
    world.stack.fire("SweepScheduled")
    world.until(lambda: len(world.stack.runs()) > runs)
    assert world.all_in().good
    assert all(run["state"] == "SUCCESS" for run in world.runs_since(began))
    for function in world.stack.functions.functions.values():
        assert 0 < function.peak_mb < function.settings.memory_mb


def test_messages_that_failed_go_to_the_dead_letter_queue_and_are_redriven(world: StackWorld) -> None:
    """While the deployment is broken all messages fail; when it is mended only the one that makes no sense does."""
    stack, key = world.stack, world.stack.parameters["ConfigKey"]
    stack.deploy(parameters={"ConfigKey": "config-00000000.json"})
    stack.client("sqs").send_message(QueueUrl=stack.resources["EventsQueue"], MessageBody="no event at all")
    world.drop("2026-01-02", 3)
    world.until(lambda: world.messages("EventsDeadLetterQueue") == 4)
    stack.deploy(parameters={"ConfigKey": key})
    redrive(world)
    assert world.all_in().good
    world.until(lambda: world.messages("EventsDeadLetterQueue") == 1)
    stack.client("sqs").purge_queue(QueueUrl=stack.resources["EventsDeadLetterQueue"])


def test_a_run_that_fails_twice_succeeds_the_third_time(world: StackWorld) -> None:
    began = time.time()
    killed: list[str | None] = []

    def kill_in_the_midst_of_a_batch(line: str) -> None:
        if '"batch_planned"' in line and not killed:
            killed.append(world.stack.kill_run())

    world.stack.listen("job", kill_in_the_midst_of_a_batch)
    world.stack.orders.failures = 1
    drop_while_runs_are_held(world, "2026-01-04", rows=20_000)
    with Ticking(world.stack, "DispatchScheduled"):
        world.until(lambda: len(world.runs_since(began)) == 3)
        verdict = world.all_in()
    assert verdict.good
    runs = world.runs_since(began)
    assert [run["state"] for run in runs] == ["FAILED", "FAILED", "SUCCESS"]
    assert killed == [runs[1]["id"]]
    world.until(lambda: failures(world)[-2:] == [1, 2])


def test_when_the_event_of_a_runs_end_is_lost_the_schedule_picks_the_backlog_up(world: StackWorld) -> None:
    began = time.time()
    world.stack.lose_job_events(True)
    try:
        world.stack.orders.failures = 1
        drop_while_runs_are_held(world, "2026-01-05")
        world.until(lambda: [run["state"] for run in world.runs_since(began)] == ["FAILED"])
        assert world.status().backlog_files == 3
        with Ticking(world.stack, "DispatchScheduled"):
            world.until(lambda: world.status().backlog_files == 0)
            assert world.all_in().good
    finally:
        world.stack.lose_job_events(False)


def test_many_dispatchers_at_the_same_moment_start_one_run(world: StackWorld) -> None:
    began = time.time()
    with world.runs_held():
        world.drop("2026-01-06", 3)
        world.announced(3)
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(lambda _: world.stack.invoke("DispatcherFunction", DISPATCH), range(12)))
        assert [outcome.error for outcome in outcomes if outcome.error] == []
        world.until(world.told)
        assert len(world.runs_since(began)) == 1
    assert world.all_in().good


def test_a_stack_update_in_the_middle_of_a_run_disturbs_nothing(world: StackWorld) -> None:
    began = time.time()
    before = world.stack.parameters.get("MaxFailures", "5")
    drop_while_runs_are_held(world, "2026-01-07")
    with world.run_stopped():
        world.until(lambda: [run["state"] for run in world.runs_since(began)] == ["RUNNING"])
        world.stack.deploy(parameters={"MaxFailures": "7"})
        assert [run["state"] for run in world.runs_since(began)] == ["RUNNING"]
    deployed = world.stack.client("lambda").get_function_configuration(
        FunctionName=world.stack.resources["DispatcherFunction"]
    )
    assert deployed["Environment"]["Variables"]["BLIZZARD_MAX_FAILURES"] == "7"
    assert world.all_in().good
    assert [run["state"] for run in world.runs_since(began)] == ["SUCCESS"]
    world.stack.deploy(parameters={"MaxFailures": before})


def test_a_new_release_takes_over_and_a_rollback_brings_the_old_one_back(world: StackWorld, tmp_path: Path) -> None:
    stack, first = world.stack, dict(world.stack.parameters)
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(interval_files=2))
    new = release(stack.aws, config, tmp_path / "new", other_sources(tmp_path / "sources"))
    assert all(new.parameters[name] != first[name] for name in ("ConfigKey", "JobArchiveKey"))
    old = earlier_release(stack.aws, stack.release_id, tmp_path / "old")
    for taken in (new, old):
        began = time.time()
        stack.deploy(translate(TEMPLATE, taken.codes), taken.parameters)
        drop_while_runs_are_held(world, "2026-01-08")
        assert world.all_in().good
        (run,) = world.runs_since(began)
        asked = stack.client("emr-serverless").get_job_run(applicationId=stack.application_id, jobRunId=run["id"])
        submitted = str(asked["jobRun"]["jobDriver"])
        assert all(taken.parameters[name] in submitted for name in ("ConfigKey", "JobArchiveKey", "JobEntryKey"))
        for function, code in taken.codes.items():
            assert deployed_sha256(world, function) in code
    assert {name: stack.parameters[name] for name in first} == first


def drop_while_runs_are_held(world: StackWorld, day: str, *, rows: int = 2) -> None:
    """Three files, all of which are announced before the one run starts: none comes late for it, so that it needs no
    second one."""
    with world.runs_held():
        world.drop(day, 3, rows=rows)
        world.announced(3)
        world.until(world.told)


def failures(world: StackWorld) -> list[int]:
    """In a row, as the dispatcher says at each."""
    lines = [line for line in world.stack.logs("dispatcher").splitlines() if '"run_failed"' in line]
    return [json.loads(line)["failures"] for line in lines]


def other_sources(root: Path) -> Path:
    """Packed from sources that differ in a line of every bundle."""
    root.mkdir()
    for name in LINKED:
        source = CHECKOUT / name
        if name in ("blizzard", "functions", "spark_job"):
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / name).symlink_to(source)
    with (root / "blizzard" / "errors.py").open("a") as file:
        file.write("# the next release\n")
    # In a process of its own, which finds these modules and not the checkout's.
    make = f"from pathlib import Path; from infra.package.build import package; package({architecture()!r}, Path.cwd())"
    subprocess.run([sys.executable, "-c", make], cwd=root, check=True)
    return root


def architecture() -> str:
    return ARCHITECTURE[platform.machine().lower()]


def deployed_sha256(world: StackWorld, function: str) -> str:
    """As the keys of artifacts have it: the first 16 hexadecimal digits."""
    found = world.stack.client("lambda").get_function_configuration(FunctionName=world.stack.resources[function])
    return base64.b64decode(found["CodeSha256"]).hex()[:16]


def redrive(world: StackWorld) -> None:
    sqs, queue = world.stack.client("sqs"), world.stack.resources["EventsDeadLetterQueue"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.start_message_move_task(SourceArn=arn)
