"""The shipped template as a stack on the local AWS, of which no function or job ever runs, and examinations of it."""

import hashlib
import io
import json
import time
import uuid
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]

from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.doctor.aws.checks import examine_stack
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Result
from blizzard.doctor.doctor import Examination
from blizzard.storage.s3_connection import S3Settings
from infra.local.deploy.release import TEMPLATE
from infra.local.deploy.stack_client import StackClient
from infra.local.processes.server_process import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, LocalAws
from infra.package.manifest import Artifact
from infra.publish.release import Release
from infra.template.translate import translate
from tests.unit.test_probe_verdict import GOOD

FUNCTIONS = ("Attacher", "Collector", "Dispatcher", "Sweeper")
RELEASE_LABEL = "emr-spark-8.1.0"
KEYS = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}


@dataclass
class DoctorStack:
    """`settings`: parameters of the template that differ from the defaults. `more_sources`: beside one of files."""

    aws: LocalAws
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    more_sources: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"s{uuid.uuid4().hex[:12]}"
        self.stack = StackClient(self.aws, self.name)
        self.artifacts, self.landing, self.lake = (f"{self.name}-{each}" for each in ("artifacts", "landing", "lake"))
        self.file = self.folder / f"{self.name}.yaml"
        self.file.write_text(json.dumps({"pipelines": {"events": self._pipeline()}}))
        self.bucket(self.artifacts)
        self.topic = self.aws.client("sns").create_topic(Name=f"{self.name}-alarms")["TopicArn"]
        self.aws.client("sns").subscribe(
            TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:123456789012:{self.name}-people"
        )
        self.release = self._publish()

    def _pipeline(self) -> dict[str, Any]:
        source = {"uri": f"s3://{self.landing}/raw/date=all/", "schema": "id STRING"}
        return {"table_uri": f"s3://{self.lake}/tables/events", "sources": {"landing": source, **self.more_sources}}

    def bucket(self, name: str, region: str = REGION) -> None:
        there = boto3.client("s3", region_name=region, endpoint_url=self.aws.endpoint, **KEYS)
        there.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})

    def put(self, key: str, body: bytes) -> str:
        self.aws.client("s3").put_object(Bucket=self.artifacts, Key=key, Body=body)
        return key

    def publish_configuration(self) -> str:
        config = parse_config(self.file.read_text(), {})
        return self.put("config-0.json", to_published(config).encode())

    def _publish(self) -> Release:
        code = {name: _bundle(f"{self.name} {name}") for name in FUNCTIONS}
        for name, body in code.items():
            self.put(f"functions/{name}.zip", body)
        artifacts = tuple(
            Artifact(name.lower(), "f.zip", f"functions/{name}.zip", hashlib.sha256(body).hexdigest(), len(body))
            for name, body in code.items()
        )
        parameters = {
            "LandingBucketName": self.landing,
            "LandingPrefix": "raw/date=all/",
            "LakeBucketName": self.lake,
            "LakePrefix": "tables/",
            "ArtifactsBucketName": self.artifacts,
            "ConfigKey": self.publish_configuration(),
            "JobEntryKey": self.put("entry-0.py", b""),
            "JobArchiveKey": self.put("job-0.tar.gz", b""),
            "LogStoreJarKey": self.put("logstore-0.jar", b""),
            "ReleaseLabel": RELEASE_LABEL,
            "JobArchitecture": "ARM64",
        }
        release = Release(parameters, artifacts)
        self.put(release.key, release.to_json().encode())
        return release

    def deploy(self) -> "DoctorStack":
        if self.settings.get("LandingBucketMode", "create") != "create":
            self.bucket(self.landing)
        uris = {f"{name}Function": f"s3://{self.artifacts}/functions/{name}.zip" for name in FUNCTIONS}
        parameters = {**self.release.parameters, "AlarmTopicArn": self.topic, **self.settings}
        self.stack.create(translate(TEMPLATE, uris), parameters)
        return self

    def probed(self, *, in_two: bool = False, **found: Any) -> None:
        """A probe has logged its line. `in_two`: as two log events, the second from the middle of a name on."""
        logs, stream = self.aws.client("logs"), f"probe-{uuid.uuid4().hex[:8]}/driver/stdout"
        group = self.stack.outputs["JobLogGroupName"]
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}"
        line = json.dumps({**GOOD, "ts": when, "event": "probed", **found})
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        cut = line.index("second_put") if in_two else len(line)
        messages = [line[:cut], line[cut:]] if in_two else [line]
        events = [{"timestamp": int(time.time() * 1000), "message": message} for message in messages]
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)

    def resource(self, logical_id: str) -> str:
        return self.stack.resources[logical_id]

    def examine(self, *, stack: str | None = None) -> list[Result]:
        name = self.name if stack is None else stack
        return [*Examination(str(self.file), self.aws.environment(), time.time, stack=name).results()]

    def examine_stack(self) -> list[Result]:
        """Only the stack, without the places in the configuration."""
        settings = S3Settings.from_environment(self.aws.environment())
        stack = Stack(self.name, parse_config(self.file.read_text(), {}), settings, time.time)
        return [*examine_stack(stack, lambda check, subject: None)]


def _bundle(text: str) -> bytes:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as bundle:
        bundle.writestr("f.py", f"# {text}\n")
    return code.getvalue()
