"""The shipped template, deployed by `sam deploy` on LocalStack: files that `aws s3 cp` puts become rows, each once."""

import json
import time

import pytest
from botocore.exceptions import ClientError

from infra.local.demo import data
from infra.local.demo.scenario import FAST_PARAMETERS, SEED
from infra.local.deploy.release import TEMPLATE
from infra.template.evaluated import with_conditions_evaluated
from infra.template.translate import FUNCTION, parse, translate
from tests.localstack.jobs import EMR
from tests.localstack.world import ARTIFACTS, LAKE, LANDING, STACK, World, localstack_world

NOT_IN_LOCALSTACK = {"AWS::CloudWatch::Dashboard", "AWS::Logs::MetricFilter"}
"""Types that LocalStack's CloudFormation accepts and does not make."""
NOT_MADE = "unknown"
"""The name that it gives them."""


@pytest.mark.timeout(3600)
def test_files_become_rows_each_once_through_a_stack_that_sam_deploys_updates_and_deletes() -> None:
    with localstack_world() as world:
        deploy(world)
        ingest_by_events(world)
        ingest_what_is_difficult(world)
        update(world)
        delete(world)


def deploy(world: World) -> None:
    world.set_parameters(ApplicationId=world.application, **FAST_PARAMETERS)
    world.sam_build()
    world.sam_deploy()
    deployed = world.deployed()
    assert {one["ResourceStatus"] for one in deployed} == {"CREATE_COMPLETE"}
    assert {one["ResourceType"] for one in deployed if one["PhysicalResourceId"] == NOT_MADE} == NOT_IN_LOCALSTACK
    assert {one["LogicalResourceId"] for one in deployed} == resources_of_template(world.application)
    assert world.variables_of("DispatcherFunction")["BLIZZARD_APPLICATION_ID"] == world.application
    world.progress(f"{len(deployed)} resources are deployed")


def resources_of_template(application: str) -> set[str]:
    """The logical ids that SAM's own translation has, with this application."""
    resources = parse(TEMPLATE.read_text())["Resources"]
    functions = [name for name, one in resources.items() if one["Type"] == FUNCTION]
    template = translate(TEMPLATE, dict.fromkeys(functions, "s3://bucket/code.zip"))
    defaults = {name: str(one.get("Default", "")) for name, one in template["Parameters"].items()}
    return set(with_conditions_evaluated(template, {**defaults, "ApplicationId": application})["Resources"])


def ingest_by_events(world: World) -> None:
    """No sweep runs, so only events can announce these files."""
    world.copy({drop.path: drop.body for drop in data.first_wave(time.time(), SEED)})
    world.progress.wait_for("each record of the first files is one row", world.is_complete)


def ingest_what_is_difficult(world: World) -> None:
    drops = list(data.second_wave(time.time(), SEED))
    world.copy({drop.path: drop.body for drop in drops if drop.events})
    # A producer that retries: same key, same content, a second event.
    world.copy({drop.path: drop.body for drop in drops if drop.events == 2})
    with world.without_notifications():
        world.copy({drop.path: drop.body for drop in drops if not drop.events})

    def complete() -> bool:
        world.fire_schedules()
        return world.is_complete() and world.is_idle()

    world.progress.wait_for("sweeps have found the file without an event, and all is ingested", complete)
    show_verdict(world)


def update(world: World) -> None:
    world.set_parameters(MaxExecutors="2")
    before = world.resources
    world.sam_deploy()
    assert {one["ResourceStatus"] for one in world.deployed()} <= {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
    assert world.resources == before
    assert world.variables_of("DispatcherFunction")["BLIZZARD_MAX_EXECUTORS"] == "2"
    world.copy({drop.path: drop.body for drop in data.first_wave(time.time(), SEED + 1)})
    world.progress.wait_for("files that land after the update are ingested", world.is_complete)
    run = world.client(EMR).get_job_run(applicationId=world.application, jobRunId=world.runs()[0]["id"])["jobRun"]
    assert "spark.dynamicAllocation.maxExecutors=2" in run["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"]
    show_verdict(world)


def delete(world: World) -> None:
    """As docs/operate.md describes it, but for the buckets, whose DeletionPolicy LocalStack ignores."""
    world.progress.wait_for("no run is active", world.is_idle)
    assert retained(world) == {"LandingBucket", "LandingBucketPolicy", "LakeBucket", "LakeBucketPolicy"}
    world.commands.run("sam", "delete", "--stack-name", STACK, "--no-prompts")
    with pytest.raises(ClientError, match="does not exist"):
        world.client("cloudformation").describe_stacks(StackName=STACK)
    assert what_is_left(world) == {}
    # LocalStack empties these buckets before it fails to delete them for their old versions: no rows to compare.
    assert {ARTIFACTS, LANDING, LAKE} <= {one["Name"] for one in world.client("s3").list_buckets()["Buckets"]}
    world.progress("the stack is gone")


def retained(world: World) -> set[str]:
    """What the deployed template says that CloudFormation must keep."""
    found = world.client("cloudformation").get_template(StackName=STACK, TemplateStage="Processed")["TemplateBody"]
    resources = (json.loads(found) if isinstance(found, str) else found)["Resources"]
    return {name for name, one in resources.items() if one.get("DeletionPolicy") == "RetainExceptOnCreate"} & {
        one["LogicalResourceId"] for one in world.deployed()
    }


def what_is_left(world: World) -> dict[str, list[str]]:
    """What is named for the stack, by service. Not alarms: LocalStack's CloudWatch does not understand newer SDKs."""
    client = world.client
    found = {
        "functions": [one["FunctionName"] for one in client("lambda").list_functions()["Functions"]],
        "queues": [url.rpartition("/")[2] for url in client("sqs").list_queues().get("QueueUrls", [])],
        "schedules": [one["Name"] for one in client("scheduler").list_schedules()["Schedules"]],
        "rules": [one["Name"] for one in client("events").list_rules()["Rules"]],
        "roles": [one["RoleName"] for one in client("iam").list_roles()["Roles"]],
        "log groups": [one["logGroupName"] for one in client("logs").describe_log_groups()["logGroups"]],
    }
    left = {service: [name for name in names if name.lstrip("/").startswith(STACK)] for service, names in found.items()}
    return {service: names for service, names in left.items() if names}


def show_verdict(world: World) -> None:
    verdict = world.verdict()
    for line in verdict.lines():
        world.progress(f"  {line}")
    assert verdict.good
