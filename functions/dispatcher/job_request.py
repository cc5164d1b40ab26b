"""The request that starts a job run, and its settings from the environment."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from blizzard.config.spark_settings import Workers, emr_serverless_settings, submit_parameters
from blizzard.dispatch.decide import FailurePolicy
from blizzard.errors import ConfigError

T = TypeVar("T")

MAX_RUN_SECS = 3600.0
"""A run ends by itself after this time even under steady traffic, so that a new release takes over within the hour."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Release, worker sizes and locations of the job; the same for all pipelines."""

    region: str
    application_id: str
    role_arn: str
    config_uri: str
    entry_point: str
    archive_uri: str
    log_store_uri: str
    log_group: str
    release_label: str
    workers: Workers
    timeout_minutes: int
    policy: FailurePolicy
    tags: Mapping[str, str]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Raises ConfigError, which lists every missing or wrong variable."""
        environment = _Environment(environ)
        timeout_minutes = environment.get("BLIZZARD_JOB_TIMEOUT_MINUTES", _COUNT)
        settings = cls(
            region=environment.get("AWS_REGION", _REGION),
            application_id=environment.get("BLIZZARD_APPLICATION_ID", _APPLICATION_ID),
            role_arn=environment.get("BLIZZARD_JOB_ROLE_ARN", _ROLE_ARN),
            config_uri=environment.get("BLIZZARD_CONFIG", _S3_URI),
            entry_point=environment.get("BLIZZARD_JOB_ENTRY_POINT", _S3_URI),
            archive_uri=environment.get("BLIZZARD_JOB_ARCHIVE", _S3_URI),
            log_store_uri=environment.get("BLIZZARD_LOG_STORE_JAR", _S3_URI),
            log_group=environment.get("BLIZZARD_JOB_LOG_GROUP", _LOG_GROUP),
            release_label=environment.get("BLIZZARD_RELEASE_LABEL", _RELEASE_LABEL),
            workers=Workers(
                driver_cores=environment.get("BLIZZARD_DRIVER_CORES", _CORES),
                driver_memory=environment.get("BLIZZARD_DRIVER_MEMORY", _GIGABYTES),
                executor_cores=environment.get("BLIZZARD_EXECUTOR_CORES", _CORES),
                executor_memory=environment.get("BLIZZARD_EXECUTOR_MEMORY", _GIGABYTES),
                executor_disk=environment.get("BLIZZARD_EXECUTOR_DISK", _GIGABYTES),
                max_executors=environment.get("BLIZZARD_MAX_EXECUTORS", _COUNT),
            ),
            timeout_minutes=timeout_minutes,
            policy=FailurePolicy(
                max_failures=environment.get("BLIZZARD_MAX_FAILURES", _COUNT),
                backoff_secs=float(environment.get("BLIZZARD_BACKOFF_SECS", _COUNT)),
                run_secs=run_secs(timeout_minutes),
            ),
            tags=environment.get("BLIZZARD_RUN_TAGS", _TAGS),
        )
        if environment.problems:
            raise ConfigError(environment.problems)
        return settings

    def fingerprint(self) -> str:
        """A hash of everything that a start sends except pipeline and token, and of the EMR release."""
        document = [start_job_run(self, pipeline="any", client_token="any"), self.release_label]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def run_secs(timeout_minutes: int) -> float:
    """Seconds after which a run begins no new turn. At least half of the timeout is left for the start and the current
    turn, since a run that the timeout ends counts as failed."""
    return min(MAX_RUN_SECS, timeout_minutes * 60 / 2)


def job_name(pipeline: str) -> str:
    """The name of every run of a pipeline."""
    return f"{_NAME_PREFIX}{pipeline}"


def pipeline_of(name: str) -> str | None:
    """None for a run that is not Blizzard's."""
    return name.removeprefix(_NAME_PREFIX) if name.startswith(_NAME_PREFIX) else None


def start_job_run(settings: JobSettings, *, pipeline: str, client_token: str) -> dict[str, Any]:
    """The parameters of StartJobRun."""
    arguments = ["--config", settings.config_uri, "--pipeline", pipeline, "--once"]
    return job_run_request(
        settings,
        name=job_name(pipeline),
        arguments=[*arguments, "--max-secs", f"{settings.policy.run_secs:.0f}"],
        log_prefix=pipeline,
        client_token=client_token,
    )


def job_run_request(
    settings: JobSettings, *, name: str, arguments: Sequence[str], log_prefix: str, client_token: str
) -> dict[str, Any]:
    """The same for a run with other arguments. `log_prefix`: of the names of its log streams."""
    conf = emr_serverless_settings(
        settings.workers,
        archive_uri=settings.archive_uri,
        log_store_uri=settings.log_store_uri,
        region=settings.region,
    )
    return {
        "applicationId": settings.application_id,
        "clientToken": client_token,
        "executionRoleArn": settings.role_arn,
        "name": name,
        "executionTimeoutMinutes": settings.timeout_minutes,
        **({"tags": dict(settings.tags)} if settings.tags else {}),
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": settings.entry_point,
                "entryPointArguments": [*arguments],
                "sparkSubmitParameters": submit_parameters(conf),
            }
        },
        "configurationOverrides": {
            "monitoringConfiguration": {
                "managedPersistenceMonitoringConfiguration": {"enabled": True},
                "cloudWatchLoggingConfiguration": {
                    "enabled": True,
                    "logGroupName": settings.log_group,
                    "logStreamNamePrefix": log_prefix,
                    # The job logs its events to the driver's standard output.
                    "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
                },
            }
        },
    }


def _read_tags(text: str) -> Mapping[str, str]:
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {key: value for key, _, value in pairs}


@dataclass(frozen=True, slots=True)
class _VariableSpec(Generic[T]):
    """How an environment variable is checked and converted. `example` replaces a wrong value, so that one pass finds
    all problems."""

    pattern: str
    expected: str
    example: str
    read: Callable[[str], T]


_NAME_PREFIX = "blizzard-"
_REGION = _VariableSpec("[a-z]{2}[a-z0-9-]{1,30}", "a region such as eu-west-1", "", str)
_APPLICATION_ID = _VariableSpec("[0-9a-z]{1,64}", "the id of an EMR Serverless application", "00abc", str)
_ROLE_ARN = _VariableSpec(r"arn:aws[a-zA-Z0-9-]*:iam::[0-9]{12}:role/\S+", "the ARN of a role", "", str)
_S3_URI = _VariableSpec(r"s3a?://[^/\s]+/[^\s$`'\"\\#]+", "s3://bucket/key", "", str)
_LOG_GROUP = _VariableSpec(r"[.\-_/#A-Za-z0-9]{1,512}", "the name of a log group", "", str)
_RELEASE_LABEL = _VariableSpec("[A-Za-z0-9._/-]{1,64}", "a release such as emr-spark-8.1.0", "", str)
_GIGABYTES = _VariableSpec("[1-9][0-9]*[Gg]", "gigabytes such as 4G", "", str)
_CORES = _VariableSpec("1|2|4|8|16", "1, 2, 4, 8 or 16", "1", int)
_TAG = "[A-Za-z0-9_.:/@-]{1,128}=[A-Za-z0-9_.:/@-]{0,256}"
_TAGS = _VariableSpec(f"(|{_TAG}(,{_TAG})*)", "tags such as team=data,cost-center=1234, or nothing", "", _read_tags)
_COUNT = _VariableSpec("[1-9][0-9]{0,8}", "a whole number, 1 or greater", "1", int)


@dataclass(slots=True)
class _Environment:
    """Reads variables and collects their problems."""

    environ: Mapping[str, str]
    problems: list[str] = field(default_factory=list)

    def get(self, name: str, spec: _VariableSpec[T]) -> T:
        text = self.environ.get(name, "")
        if re.fullmatch(spec.pattern, text):
            return spec.read(text)
        found = f"found {text!r}" if text else "found nothing"
        self.problems.append(f"{name}: expected {spec.expected}, {found}; set it in the function's environment")
        return spec.read(spec.example)
