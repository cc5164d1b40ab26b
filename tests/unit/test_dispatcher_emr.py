"""Requests to EMR Serverless, and the meaning of its answers."""

import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.source_sections import Limits
from blizzard.config.spark_settings import EMR_PYTHON, common_settings, submit_parameters
from blizzard.dispatch.decide import FailurePolicy
from blizzard.dispatch.run_records import Phase, RunRecord
from blizzard.dispatch.service import RunState, RunStatus, ServiceBusy, ServiceRefused, StartConflict, StartRefused
from blizzard.errors import ConfigError
from functions.dispatcher.emr import ACTIVE, MAX_PAGES, EmrServerless
from functions.dispatcher.job_request import JobSettings, job_name, pipeline_of, start_job_run
from tests.unit.emr_client import ENVIRONMENT, FakeEmrClient, client_error, complaints, service_model

MIB = 1 << 20
SETTINGS = JobSettings.from_environment(ENVIRONMENT)
RECORD = RunRecord(0, "events", "0123456789abcdef", 1, Phase.STARTING, "f")


def request(pipeline: str = "events") -> dict[str, Any]:
    return start_job_run(SETTINGS, pipeline=pipeline, client_token=RECORD.client_token)


def spark_conf() -> dict[str, str]:
    words = shlex.split(request()["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"])
    assert words[::2] == ["--conf"] * (len(words) // 2)
    pairs = [word.partition("=") for word in words[1::2]]
    return {key: value for key, _, value in pairs}


def service() -> tuple[EmrServerless, FakeEmrClient]:
    client = FakeEmrClient()
    return EmrServerless(SETTINGS, lambda: client), client


# --- The request ---


def test_the_request_fits_the_model_of_the_service() -> None:
    assert complaints("StartJobRun", request()) == ""
    assert complaints("StartJobRun", {**request(), "executionTimeoutMinutes": "120"}) != "", (
        "the request is checked against the model"
    )


def each_text(value: Any, shape: Any) -> Any:
    """Every text of a request with the shape that the model gives it."""
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from each_text(member, shape.members[name])
    elif shape.type_name == "list":
        for member in value:
            yield from each_text(member, shape.member)
    elif shape.type_name == "map":
        for member in value.values():
            yield from each_text(member, shape.value)
    elif shape.type_name == "string":
        yield value, shape


@pytest.mark.parametrize("pipeline", ["events", "a", "A-b_9", "x" * 63])
def test_every_text_of_the_request_fits_the_limits_of_the_service(pipeline: str) -> None:
    shape = service_model().operation_model("StartJobRun").input_shape
    record = replace(RECORD, pipeline=pipeline, attempt=10**9)
    texts = [*each_text(start_job_run(SETTINGS, pipeline=pipeline, client_token=record.client_token), shape)]
    assert len(texts) > 10
    for text, allowed in texts:
        assert len(text) <= allowed.metadata.get("max", len(text)), text
        assert re.fullmatch(allowed.metadata.get("pattern", ".*"), text, re.DOTALL), text


def test_the_job_drains_one_pipeline_with_the_published_configuration() -> None:
    submit = request()["jobDriver"]["sparkSubmit"]
    assert submit["entryPoint"] == ENVIRONMENT["BLIZZARD_JOB_ENTRY_POINT"]
    assert submit["entryPointArguments"] == [
        "--config",
        ENVIRONMENT["BLIZZARD_CONFIG"],
        "--pipeline",
        "events",
        "--once",
        "--max-secs",
        "3600",
    ]
    assert request()["name"] == "blizzard-events"
    assert request()["executionTimeoutMinutes"] == 120


@pytest.mark.parametrize(("minutes", "secs"), [("1", "30"), ("60", "1800"), ("120", "3600"), ("720", "3600")])
def test_a_run_stops_well_before_the_timeout_of_the_service(minutes: str, secs: str) -> None:
    settings = JobSettings.from_environment({**ENVIRONMENT, "BLIZZARD_JOB_TIMEOUT_MINUTES": minutes})
    arguments = start_job_run(settings, pipeline="a", client_token="t")["jobDriver"]["sparkSubmit"][
        "entryPointArguments"
    ]
    assert arguments[-2:] == ["--max-secs", secs]
    assert settings.policy.run_secs == float(secs)


def test_the_job_gets_the_region_by_its_settings() -> None:
    conf = spark_conf()
    assert conf["spark.emr-serverless.driverEnv.AWS_REGION"] == conf["spark.executorEnv.AWS_REGION"] == "eu-west-1"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"


def test_the_request_has_all_common_settings_of_spark() -> None:
    assert common_settings().items() <= spark_conf().items()


def test_the_job_gets_the_python_that_its_archive_is_built_for() -> None:
    conf = spark_conf()
    assert {value for name, value in conf.items() if name.endswith(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"))} == {
        f"python{EMR_PYTHON}"
    }
    assert {"spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON", "spark.executorEnv.PYSPARK_PYTHON"} <= conf.keys()


def test_the_job_finds_its_packages_delta_and_the_log_store() -> None:
    conf = spark_conf()
    assert conf["spark.archives"] == "s3://artifacts/blizzard/job-0123456789abcdef.tar.gz#deps"
    assert conf["spark.emr-serverless.driverEnv.PYTHONPATH"] == conf["spark.executorEnv.PYTHONPATH"] == "./deps"
    assert conf["spark.jars"].split(",") == [
        "/usr/share/aws/delta/lib/delta-spark.jar",
        "/usr/share/aws/delta/lib/delta-storage.jar",
        "s3://artifacts/blizzard/logstore-0123456789abcdef.jar",
    ]


def test_the_request_always_has_sizes_and_limits() -> None:
    conf = spark_conf()
    assert [conf[f"spark.{key}"] for key in ("driver.cores", "driver.memory", "executor.cores", "executor.memory")] == [
        "2",
        "4G",
        "4",
        f"{14 * 1024 * 3 // 4}m",
    ]
    assert conf["spark.emr-serverless.executor.disk"] == "20G"
    assert conf["spark.dynamicAllocation.maxExecutors"] == "4"
    assert conf["spark.dynamicAllocation.initialExecutors"] == conf["spark.executor.instances"] == "1"


def test_an_executor_has_memory_for_python_within_its_size() -> None:
    conf = spark_conf()
    heap, overhead = (
        int(conf[f"spark.executor.{key}"].removesuffix("m")) * MIB for key in ("memory", "memoryOverhead")
    )
    assert overhead >= int(conf["spark.executor.cores"]) * (Limits().task_memory_bytes + 200 * MIB)
    assert heap + overhead <= 1.1 * 14 * 1024 * MIB


def test_the_drivers_output_goes_to_the_log_group_of_the_stack() -> None:
    monitoring = request()["configurationOverrides"]["monitoringConfiguration"]
    assert monitoring["managedPersistenceMonitoringConfiguration"] == {"enabled": True}
    assert monitoring["cloudWatchLoggingConfiguration"] == {
        "enabled": True,
        "logGroupName": "/blizzard/job",
        "logStreamNamePrefix": "events",
        "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
    }


words = st.text(st.characters(codec="utf-8", exclude_characters="$`", exclude_categories=["Cc", "Cs"]), max_size=20)


@given(st.dictionaries(st.from_regex(r"spark\.[a-z]{1,8}", fullmatch=True), words, max_size=4))
def test_any_value_survives_a_command_line(conf: dict[str, str]) -> None:
    expected = [word for key, value in sorted(conf.items()) for word in ("--conf", f"{key}={value}")]
    assert shlex.split(submit_parameters(conf)) == expected


def test_what_a_shell_would_expand_is_refused() -> None:
    with pytest.raises(ValueError, match="remove the"):
        submit_parameters({"spark.a": "x $(id)"})


def test_the_pipeline_of_a_run_is_known_from_its_name() -> None:
    assert pipeline_of(job_name("blizzard-x")) == "blizzard-x"
    assert pipeline_of("nightly-report") is None


# --- The environment ---


def test_all_missing_or_wrong_variables_are_reported_at_once() -> None:
    wrong = {
        **ENVIRONMENT,
        "BLIZZARD_DRIVER_MEMORY": "lots",
        "BLIZZARD_MAX_EXECUTORS": "0",
        "BLIZZARD_JOB_ARCHIVE": "x",
    }
    del wrong["BLIZZARD_JOB_ROLE_ARN"]
    with pytest.raises(ConfigError) as caught:
        JobSettings.from_environment(wrong)
    named = [problem.partition(":")[0] for problem in caught.value.problems]
    assert named == [
        "BLIZZARD_JOB_ROLE_ARN",
        "BLIZZARD_JOB_ARCHIVE",
        "BLIZZARD_DRIVER_MEMORY",
        "BLIZZARD_MAX_EXECUTORS",
    ]
    assert "expected gigabytes such as 4G, found 'lots'" in str(caught.value)


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_every_variable_is_required(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected .*, found nothing"):
        JobSettings.from_environment({**ENVIRONMENT, name: ""})


def test_the_policy_for_failures_is_read_from_the_environment() -> None:
    assert SETTINGS.policy == FailurePolicy(max_failures=3, backoff_secs=60.0, run_secs=3600.0)


RELEASE = sorted(set(ENVIRONMENT) - {"BLIZZARD_MAX_FAILURES", "BLIZZARD_BACKOFF_SECS"})
OTHER = {"BLIZZARD_APPLICATION_ID": "00other", "BLIZZARD_JOB_ROLE_ARN": "arn:aws:iam::111122223333:role/other"}


@pytest.mark.parametrize("name", RELEASE)
def test_any_change_of_a_runs_settings_changes_the_fingerprint(name: str) -> None:
    text = ENVIRONMENT[name]
    changed = OTHER.get(name) or ("8" if text in ("2", "4") else re.sub(r"\d+(?=\D*$)", lambda m: m[0] + "7", text))
    if changed == text:
        changed = text + "x"
    assert JobSettings.from_environment({**ENVIRONMENT, name: changed}).fingerprint() != SETTINGS.fingerprint()


def test_the_same_settings_have_the_same_fingerprint() -> None:
    assert JobSettings.from_environment(dict(reversed(ENVIRONMENT.items()))).fingerprint() == SETTINGS.fingerprint()


# --- The service's answers ---


def test_a_start_with_the_same_token_gives_the_same_run() -> None:
    emr, client = service()
    assert emr.start("events", "t1") == emr.start("events", "t1") == "00run0000"
    assert emr.start("events", "t2") != "00run0000"
    assert [name for name, _ in client.calls] == ["StartJobRun"] * 3


@pytest.mark.parametrize(
    ("state", "status"),
    [
        *((state, RunStatus.ACTIVE) for state in ACTIVE),
        ("SUCCESS", RunStatus.SUCCEEDED),
        ("FAILED", RunStatus.FAILED),
        ("CANCELLED", RunStatus.FAILED),
        ("A_NEW_STATE", RunStatus.ACTIVE),
    ],
)
def test_each_state_has_its_meaning(state: str, status: RunStatus) -> None:
    emr, client = service()
    client.runs["00a"] = client.run("00a", "blizzard-events", state, detail="because")
    assert emr.state("00a") == RunState(status, f"{state}: because")


def test_every_state_of_the_model_is_known() -> None:
    assert {*ACTIVE, "SUCCESS", "FAILED", "CANCELLED"} == set(service_model().shape_for("JobRunState").enum)


def test_an_unknown_run_is_none_and_not_an_error() -> None:
    assert service()[0].state("00gone") is None


def test_the_oldest_active_run_of_the_same_name_is_found() -> None:
    emr, client = service()
    for run_id, name, state, created in [
        ("00a", "blizzard-events", "SUCCESS", 0),
        ("00b", "blizzard-events-2", "RUNNING", 1),
        ("00c", "blizzard-events", "QUEUED", 3),
        ("00d", "blizzard-events", "CANCELLING", 2),
        ("00e", "blizzard", "RUNNING", 0),
    ]:
        client.runs[run_id] = client.run(run_id, name, state, created)
    assert emr.active("events") == "00d"
    assert emr.active("clicks") is None


def test_a_run_of_another_stack_in_the_same_application_is_not_this_pipelines() -> None:
    emr, client = service()
    client.runs["00a"] = {**client.run("00a", "blizzard-events"), "executionRole": OTHER["BLIZZARD_JOB_ROLE_ARN"]}
    assert emr.active("events") is None


def test_runs_without_a_name_belong_to_no_pipeline() -> None:
    emr, client = service()
    client.runs["00a"] = {**client.run("00a", ""), "name": None}
    assert emr.active("events") is None


def test_an_empty_page_with_a_next_token_is_not_the_last() -> None:
    emr, client = service()
    run = client.run("00a", "blizzard-events")
    client.pages = [{"jobRuns": [], "nextToken": "1"}, {"jobRuns": [], "nextToken": "2"}, {"jobRuns": [run]}]
    assert emr.active("events") == "00a"
    assert [call.get("nextToken") for _, call in client.calls] == [None, "1", "2"]


def test_too_many_pages_are_an_error() -> None:
    emr, client = service()
    client.pages = [{"jobRuns": [], "nextToken": "0"}]
    with pytest.raises(ServiceBusy, match="Cancel the runs"):
        emr.active("events")
    assert len(client.calls) == MAX_PAGES


START_ERRORS: list[tuple[Exception, type[Exception]]] = [
    (client_error("StartJobRun", "ValidationException"), StartRefused),
    (client_error("StartJobRun", "AccessDeniedException", 403), StartRefused),
    (client_error("StartJobRun", "ResourceNotFoundException", 404), StartRefused),
    (client_error("StartJobRun", "ConflictException", 409), StartConflict),
    (client_error("StartJobRun", "InternalServerException", 500), ServiceBusy),
    (client_error("StartJobRun", "ThrottlingException", 400), ServiceBusy),
    (client_error("StartJobRun", "TooManyRequestsException", 429), ServiceBusy),
    (client_error("StartJobRun", "SomethingNew", 429), ServiceBusy),
    (client_error("StartJobRun", "ServiceQuotaExceededException", 402), StartRefused),
    (client_error("StartJobRun", "ExpiredTokenException", 403), ServiceBusy),
    (client_error("StartJobRun", "", 503), ServiceBusy),
    (EndpointConnectionError(endpoint_url="https://emr-serverless"), ServiceBusy),
    (ReadTimeoutError(endpoint_url="https://emr-serverless"), ServiceBusy),
    (ParamValidationError(report="wrong"), StartRefused),
]


@pytest.mark.parametrize(("error", "expected"), START_ERRORS, ids=lambda e: str(getattr(e, "response", e))[:60])
def test_each_error_of_a_start_has_its_type(error: Exception, expected: type[Exception]) -> None:
    emr, client = service()
    client.errors["StartJobRun"] = error
    with pytest.raises(expected) as caught:
        emr.start("events", "t1")
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("clientToken was used with different parameters", StartConflict),
        ("The Client Token has been used already", StartConflict),
        ("The request does not match its idempotency token", StartConflict),
        ("jobDriver.sparkSubmit.entryPoint must not be null", StartRefused),
        ("clientToken must not be null", StartRefused),
        ("Value at 'clientToken' failed to satisfy constraint: Member must have length at most 64", StartRefused),
    ],
)
def test_a_spent_token_is_recognized_whatever_the_type_of_the_error(message: str, expected: type[Exception]) -> None:
    emr, client = service()
    client.errors["StartJobRun"] = client_error("StartJobRun", "ValidationException", message=message)
    with pytest.raises(expected) as caught:
        emr.start("events", "t1")
    assert type(caught.value) is expected


def test_every_error_of_the_services_model_is_tested() -> None:
    of_model = {shape.name for shape in service_model().operation_model("StartJobRun").error_shapes}
    assert of_model <= {e.response["Error"]["Code"] for e, _ in START_ERRORS if isinstance(e, ClientError)}


def test_a_missing_permission_is_an_error_that_names_it() -> None:
    emr, client = service()
    client.errors["GetJobRun"] = client.errors["ListJobRuns"] = client_error("x", "AccessDeniedException", 403)
    with pytest.raises(ServiceRefused, match="GetJobRun: AccessDenied"):
        emr.state("00a")
    with pytest.raises(ServiceRefused, match="ListJobRuns: AccessDenied"):
        emr.active("events")


# --- Tags ---


def test_runs_get_the_tags_of_the_environment() -> None:
    tagged = JobSettings.from_environment({**ENVIRONMENT, "BLIZZARD_RUN_TAGS": "team=data,cost-center=1234,empty="})
    request = start_job_run(tagged, pipeline="events", client_token="t")
    assert request["tags"] == {"team": "data", "cost-center": "1234", "empty": ""}
    assert complaints("StartJobRun", request) == ""
    assert tagged.fingerprint() != SETTINGS.fingerprint()


def test_runs_without_tags_are_started_as_before() -> None:
    assert "tags" not in start_job_run(SETTINGS, pipeline="events", client_token="t")


def test_wrong_tags_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"BLIZZARD_RUN_TAGS: expected tags such as team=data.*found 'team'"):
        JobSettings.from_environment({**ENVIRONMENT, "BLIZZARD_RUN_TAGS": "team"})
