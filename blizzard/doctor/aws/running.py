"""Checks of what starts runs, and of what they run with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blizzard.config.kafka_options import MSK_IAM
from blizzard.config.model import Config
from blizzard.doctor.aws.stack import Stack, matches, statements, texts
from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.doctor.configuration import unsafe_settings

SCHEDULES = {"SweepScheduled": "the-sweeper-does-not-run", "DispatchScheduled": "files-wait-too-long"}
FUNCTIONS = ("CollectorFunctionName", "DispatcherFunctionName", "SweeperFunctionName")
USABLE = ("CREATING", "CREATED", "STARTING", "STARTED", "STOPPING", "STOPPED")
"""States of an application that a run can start."""
JOB = "emr-serverless.amazonaws.com"
READ_RIGHTS, WRITE_RIGHTS = ("s3:GetObject",), ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")


def _dispatching(stack: Stack) -> Finding:
    if not stack.is_paused:
        return ok("runs are started")
    return warning(
        "the stack is paused: no run is started",
        expected="Dispatching=on",
        advice="deploy with Dispatching=on; see docs/operate.md#what-only-a-stopped-application-takes",
    )


def _schedules(stack: Stack) -> Finding:
    wanted = [name for name in SCHEDULES if name != "DispatchScheduled" or not stack.is_paused]
    wrong = {name: text for name in wanted if (text := _schedule_problem(stack, name))}
    if not wrong:
        return ok("they are enabled")
    return problem(
        "; ".join(wrong.values()),
        expected="an enabled schedule of sweeper and dispatcher",
        advice=f"enable it: docs/runbook.md#{SCHEDULES[next(iter(wrong))]}",
    )


def _schedule_problem(stack: Stack, logical_id: str) -> str:
    scheduler, name = stack.client("scheduler"), stack.physical(logical_id).rpartition("|")[2]
    try:
        state = scheduler.get_schedule(Name=name)["State"]
    except scheduler.exceptions.ResourceNotFoundException:
        return f"the schedule {name} is gone"
    return "" if state == "ENABLED" else f"the schedule {name} is {state}"


def _job_state_rule(stack: Stack) -> Finding:
    if stack.is_paused:
        return skipped("the stack is paused")
    events, name = stack.client("events"), stack.physical("JobStateRule").rpartition("|")[2]
    state = events.describe_rule(Name=name)["State"]
    if state == "ENABLED" and events.list_targets_by_rule(Rule=name)["Targets"]:
        return ok("the end of a run wakes the dispatcher")
    return warning(
        f"the rule {name} is {state}, so the dispatcher learns of a run's end by its schedule alone",
        expected="an enabled rule",
        advice=f"aws events enable-rule --name {name}; its target: docs/runbook.md#what-somebody-changed-by-hand",
    )


def _functions(stack: Stack) -> Finding:
    wrong = [text for output in FUNCTIONS for text in _function_problems(stack, output)]
    if not wrong:
        return ok("they can be invoked")
    return problem(
        "; ".join(wrong),
        expected="active functions without a reserved concurrency of 0",
        advice="aws lambda delete-function-concurrency --function-name …: docs/runbook.md#functions-are-throttled",
    )


def _function_problems(stack: Stack, output: str) -> Iterator[str]:
    name, found = stack.outputs[output], stack.function(output)
    if found.get("State", "Active") not in ("Active", "Inactive"):
        yield f"{name} is {found['State']} ({found.get('StateReason', 'no reason')})"
    if found.get("LastUpdateStatus") == "Failed":
        yield f"the last update of {name} failed ({found.get('LastUpdateStatusReason', 'no reason')})"
    reserved = stack.client("lambda").get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
    if reserved == 0:
        yield f"{name} has a reserved concurrency of 0, so it is never invoked"


# --- The job ---


def application(stack: Stack) -> Mapping[str, Any]:
    found = stack.client("emr-serverless").get_application(applicationId=stack.outputs["ApplicationId"])
    return dict(found["application"])


def _application(stack: Stack) -> Finding:
    found, wrong = application(stack), []
    label, architecture = stack.parameters["ReleaseLabel"], stack.parameters["JobArchitecture"]
    if found["state"] not in USABLE:
        wrong.append(f"it is {found['state']}")
    if found["type"].lower() != "spark":
        wrong.append(f"its type is {found['type']}, expected Spark")
    if found["releaseLabel"] != label:
        wrong.append(f"its release is {found['releaseLabel']}, expected {label}")
    if found.get("architecture", "X86_64") != architecture:
        wrong.append(f"its architecture is {found.get('architecture')}, expected {architecture}, as the job's packages")
    if found.get("autoStartConfiguration", {}).get("enabled") is False:
        wrong.append("a run does not start it (autoStartConfiguration)")
    if not wrong:
        return ok(f"{found['releaseLabel']} on {architecture}, {found['state']}")
    return problem(
        "; ".join(wrong),
        expected="an application that fits the stack's parameters",
        advice="deploy the stack while the application is stopped, or correct the application that exists: "
        "docs/deploy.md#an-application-that-exists-already",
    )


def _log_store(stack: Stack) -> Finding:
    """By the application's own settings, which EMR may merge into those of a run, and the jar that runs fetch."""
    settings = {
        name: value
        for each in application(stack).get("runtimeConfiguration") or ()
        for name, value in (each.get("properties") or {}).items()
    }
    wrong = list(unsafe_settings(settings))
    uri = stack.dispatcher.get("BLIZZARD_LOG_STORE_JAR", "")
    if not _exists(stack, uri):
        wrong.append(f"there is no {uri or 'BLIZZARD_LOG_STORE_JAR'}")
    if not wrong:
        return ok("runs bring Blizzard's log store, and nothing replaces it")
    return problem(
        "; ".join(wrong),
        expected="Blizzard's log store: with another one two runs win one commit, and the rows of one are lost",
        advice="remove these settings from the application; publish and deploy again if the jar is gone. "
        "docs/how-it-works.md#the-log-store",
    )


def _exists(stack: Stack, uri: str) -> bool:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped]

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        stack.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
            raise
        return False
    return True


def _job_role(stack: Stack) -> Finding:
    """By its own policies. What a bucket, a key or the organization denies, the probe finds."""
    name = stack.physical("JobRole")
    iam = stack.client("iam")
    trusted = [
        service
        for each in statements(iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"])
        if each["Effect"] == "Allow"
        for service in texts(each.get("Principal", {}).get("Service"))
    ]
    wrong = [] if JOB in trusted else [f"{JOB} may not take it"]
    granted = [
        each
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
        for each in statements(iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"])
    ]
    wrong += [f"{action} on {arn}" for action, arn in _needed(stack) if not _allows(granted, action, arn)]
    if not wrong:
        return ok(f"{name} may read the sources and write the tables")
    return problem(
        f"{name} lacks {'; '.join(wrong[:5])}",
        expected="the rights of the template, for these buckets and prefixes",
        advice="deploy again with the parameters that `make publish` printed; then `make probe` tries each right",
    )


def _needed(stack: Stack) -> Iterator[tuple[str, str]]:
    """Rights on an object below each source and table, and on topics."""
    if stack.config is None:
        return
    partition = stack.outputs["EventsQueueArn"].split(":")[1]
    sources = dict.fromkeys(source.uri for _, source in stack.config.file_sources())
    tables = dict.fromkeys(f"{pipeline.table_uri}/" for pipeline in stack.config.pipelines.values())
    for uris, actions in ((sources, READ_RIGHTS), (tables, WRITE_RIGHTS)):
        for uri in uris:
            yield from ((action, f"arn:{partition}:s3:::{uri.removeprefix('s3://')}x") for action in actions)
            yield "s3:ListBucket", f"arn:{partition}:s3:::{uri.removeprefix('s3://').partition('/')[0]}"
    yield from _needed_by_topics(stack, stack.config)


def _needed_by_topics(stack: Stack, config: Config) -> Iterator[tuple[str, str]]:
    """For the logins of sources of topics. A secret that is named without its ARN is not looked at."""
    cluster = stack.parameters.get("KafkaClusterArn") or "the brokers' cluster, since KafkaClusterArn is empty"
    for _, source in config.sources():
        if source.kafka is None:
            continue
        registry = source.avro_options.registry if source.avro_options else None
        secrets = (source.kafka.security.secret, registry.secret if registry else None)
        yield from (("secretsmanager:GetSecretValue", arn) for arn in secrets if arn and arn.startswith("arn:"))
        if source.kafka.security.mechanism == MSK_IAM:
            yield "kafka-cluster:Connect", cluster
            # Which topics a pattern may match, only the brokers know.
            any_topic = [] if stack.parameters.get("KafkaTopicArns") else ["x"]
            topics = cluster.replace(":cluster/", ":topic/")
            yield from (("kafka-cluster:ReadData", f"{topics}/{name}") for name in source.kafka.topics or any_topic)


def _allows(granted: Sequence[Mapping[str, Any]], action: str, arn: str) -> bool:
    found = [
        each["Effect"]
        for each in granted
        if any(matches(one.lower(), action.lower()) for one in texts(each.get("Action")))
        and any(matches(one, arn) for one in texts(each.get("Resource")))
    ]
    return "Allow" in found and "Deny" not in found


def _last_run(stack: Stack) -> Finding:
    emr, application_id = stack.client("emr-serverless"), stack.outputs["ApplicationId"]
    runs = emr.list_job_runs(applicationId=application_id, maxResults=50)["jobRuns"]
    ended = [run for run in runs if run["state"] in ("SUCCESS", "FAILED", "CANCELLED")]
    if not ended:
        return skipped("no run has ended yet")
    newest = max(ended, key=lambda run: run["createdAt"])
    if newest["state"] == "SUCCESS":
        return ok(f"the run {newest['id']} succeeded")
    return warning(
        f"the run {newest['id']} ended with {newest['state']}: {newest.get('stateDetails') or 'no details'}",
        expected="SUCCESS",
        advice="docs/runbook.md#a-run-failed",
    )


CHECKS: Sequence[Check[Stack]] = tuple(
    Check(f"aws.{name}", look, needs=("aws.stack",))
    for name, look in (
        ("dispatching", _dispatching),
        ("schedules", _schedules),
        ("job-state-rule", _job_state_rule),
        ("functions", _functions),
        ("job-role", _job_role),
        ("application", _application),
        ("log-store", _log_store),
        ("last-run", _last_run),
    )
)
