"""`make publish` and `make rollback` with an S3: their effect on the bucket and samconfig.toml, and their output."""

import hashlib
import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from blizzard.config.load import parse_config
from blizzard.config.published import read_published
from infra.local.processes.server_process import LocalAws
from infra.package.build import sources_sha256
from infra.package.contents import EMR_RELEASE
from infra.package.manifest import ARCHIVE, ENTRY, LOG_STORE, Artifact, BuildManifest
from infra.publish.__main__ import main

CONFIG = """\
pipelines:
  events:
    table_uri: s3://${LAKE}/events
    sources:
      landing:
        uri: s3://landing/raw-events/
        format: text
"""
FILES = {
    "collector": ("functions/collector.zip", "collector-{}.zip"),
    ENTRY: ("job/entry-{}.py", "entry-{}.py"),
    ARCHIVE: ("job/job-{}.tar.gz", "job-{}.tar.gz"),
    LOG_STORE: ("job/logstore-{}.jar", "logstore-{}.jar"),
}


class Checkout:
    """A folder as after `make package`, with a bucket to publish to."""

    def __init__(self, root: Path, aws: LocalAws, bucket: str) -> None:
        self.root = root
        self.bucket = bucket
        self.s3 = aws.client("s3")
        self.config = root / "pipelines.yaml"
        self.config.write_text(CONFIG)
        (root / "requirements.lock").touch()

    def packs(self, text: str) -> None:
        """Build artifacts whose content depends on `text`."""
        (self.root / "requirements.lock").write_text(text)
        artifacts = {}
        for name, (file, key) in FILES.items():
            content = f"{name} of {text}".encode()
            sha256 = hashlib.sha256(content).hexdigest()
            artifacts[name] = Artifact(name, file.format(sha256[:16]), key.format(sha256[:16]), sha256, len(content))
            path = self.root / "build" / artifacts[name].file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        manifest = BuildManifest("ARM64", sources_sha256(self.root), artifacts)
        (self.root / "build" / "manifest.json").write_text(manifest.to_json())

    def publish(self, artifacts: str = "") -> int:
        place = artifacts or f"s3://{self.bucket}/blizzard"
        return main(["--config", str(self.config), "--artifacts", place], self.root)

    def roll_back(self, release: str) -> int:
        return main(["--release", release, "--artifacts", f"s3://{self.bucket}/blizzard"], self.root)

    def objects(self) -> dict[str, bytes]:
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {row["Key"]: self.s3.get_object(Bucket=self.bucket, Key=row["Key"])["Body"].read() for row in found}

    def parameters(self) -> dict[str, str]:
        """The parameters in samconfig.toml."""
        content: Any = tomllib.loads((self.root / "samconfig.toml").read_text())
        items = shlex.split(content["default"]["deploy"]["parameters"]["parameter_overrides"])
        return {name: value for name, _, value in (item.partition("=") for item in items)}


@pytest.fixture
def checkout(tmp_path: Path, aws: LocalAws, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKE", "lake")
    made = Checkout(tmp_path, aws, bucket)
    made.packs("one")
    return made


def test_everything_is_published_under_its_hash_and_the_parameters_refer_to_it(checkout: Checkout) -> None:
    assert checkout.publish() == 0
    objects, parameters = checkout.objects(), checkout.parameters()
    assert objects[parameters["JobArchiveKey"]] == b"job_archive of one"
    assert objects[parameters["JobEntryKey"]] == b"job_entry of one"
    assert objects[parameters["LogStoreJarKey"]] == b"log_store of one"
    # Each key contains the hash of its content.
    for key, content in objects.items():
        name = key.rpartition("/")[2]
        assert key.startswith("blizzard/releases/") or hashlib.sha256(content).hexdigest()[:16] in name
    assert {name: value for name, value in parameters.items() if not name.endswith("Key")} == {
        "LandingBucketName": "landing",
        "ReleaseLabel": EMR_RELEASE,
        "LandingPrefix": "raw-events/",
        **{f"Landing{what}{number}": "" for what in ("BucketName", "Prefix") for number in (2, 3, 4)},
        "LakeBucketName": "lake",
        "LakePrefix": "events/",
        "ArtifactsBucketName": checkout.bucket,
        "JobArchitecture": "ARM64",
    }


def test_functions_and_job_read_the_published_configuration(checkout: Checkout) -> None:
    checkout.publish()
    text = checkout.objects()[checkout.parameters()["ConfigKey"]].decode()
    meant = parse_config(CONFIG, {"LAKE": "lake"})
    assert parse_config(text, {}) == meant
    assert [source.table_uri for source in read_published(text, "it").sources()] == ["s3://lake/events"]


def test_publishing_again_uploads_nothing(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.publish()
    first, samconfig = checkout.objects(), (checkout.root / "samconfig.toml").read_bytes()
    capsys.readouterr()
    assert checkout.publish() == 0
    output = capsys.readouterr().out
    assert output.count("there     ") == len(first)
    assert "uploaded" not in output
    assert (checkout.objects(), (checkout.root / "samconfig.toml").read_bytes()) == (first, samconfig)


def test_earlier_releases_stay_and_can_be_restored(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.publish()
    before, parameters = checkout.objects(), checkout.parameters()
    release = next(line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("release "))
    checkout.packs("two")
    checkout.config.write_text(CONFIG.replace("events/", "other-events/"))
    monkeypatch.setattr("infra.publish.release.EMR_RELEASE", "emr-spark-8.2.0")
    assert checkout.publish() == 0
    assert checkout.parameters()["ReleaseLabel"] == "emr-spark-8.2.0"
    assert before.items() <= checkout.objects().items()
    assert checkout.parameters()["JobArchiveKey"] != parameters["JobArchiveKey"]
    assert checkout.roll_back(release) == 0
    assert checkout.parameters() == parameters
    assert (checkout.root / "build" / "functions" / "collector.zip").read_bytes() == b"collector of one"


def test_an_unknown_release_is_refused_with_the_known_ones(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.publish()
    (known,) = [key for key in checkout.objects() if "/releases/" in key]
    capsys.readouterr()
    assert checkout.roll_back("0123456789abcdef") == 1
    output = capsys.readouterr().err
    assert output.startswith("rollback: ")
    assert f"found no such release; published are {Path(known).stem}" in output


@pytest.mark.parametrize(("release", "found"), [("", "nothing"), ("0123", "'0123'"), ("x" * 16, repr("x" * 16))])
def test_an_invalid_release_id_is_refused_with_the_expected_form(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], release: str, found: str
) -> None:
    assert checkout.roll_back(release) == 2
    output = capsys.readouterr().err
    assert output.startswith("rollback: RELEASE: expected 16 hex digits")
    assert output.rstrip().endswith(f"found {found}")


def test_a_configuration_that_cannot_run_on_aws_is_refused_and_nothing_is_uploaded(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "".join(
        f"      other{number}:\n        uri: s3://elsewhere-{number}/x/\n        format: text\n" for number in range(4)
    )
    checkout.config.write_text(CONFIG.replace("s3://${LAKE}/events", "lake/events") + more)
    assert checkout.publish() == 2
    output = capsys.readouterr().err.splitlines()
    assert ["pipelines.events.table_uri" in output[0], "pipelines.events.sources.other3.uri" in output[1]] == [
        True,
        True,
    ]
    assert len(output) == 2
    assert checkout.objects() == {}
    assert not (checkout.root / "samconfig.toml").exists()


@pytest.mark.parametrize(
    ("artifacts", "output"),
    [
        ("s3://landing/x", "ARTIFACTS: found landing, which is a landing bucket"),
        ("s3://lake", "ARTIFACTS: found lake, which is the lake bucket"),
        ("arts", "ARTIFACTS: expected s3://bucket or s3://bucket/prefix"),
        ("s3://My_Bucket", "a bucket name has 3 to 63 lower-case letters, digits, dots and hyphens"),
    ],
)
def test_an_unsuitable_artifacts_bucket_is_refused(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], artifacts: str, output: str
) -> None:
    assert checkout.publish(artifacts) == 2
    assert output in capsys.readouterr().err


def test_a_missing_configuration_is_named(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.config.unlink()
    assert checkout.publish() == 2
    assert "pipelines.yaml: cannot be read: No such file" in capsys.readouterr().err
    assert main(["--artifacts", "s3://arts"], checkout.root) == 2
    assert "CONFIG: expected the path of a configuration" in capsys.readouterr().err
    assert main(["--artifacts", ""], checkout.root) == 2
    assert [line.split(": expected")[0] for line in capsys.readouterr().err.splitlines()] == [
        "publish: CONFIG",
        "publish: ARTIFACTS",
    ]


def test_an_outdated_build_is_not_published(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout.root / "spark_job").mkdir()
    (checkout.root / "spark_job" / "main.py").touch()
    assert checkout.publish() == 1
    assert "the code changed since it was packed; run `make package` again" in capsys.readouterr().err
    assert checkout.objects() == {}


def test_a_changed_or_missing_artifact_is_not_published(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    file = checkout.root / "build" / "functions" / "collector.zip"
    file.write_bytes(b"changed")
    assert checkout.publish() == 1
    file.unlink()
    assert checkout.publish() == 1
    assert capsys.readouterr().err.count("collector.zip: it changed since it was packed; run `make package` again") == 2
    (checkout.root / "build" / "manifest.json").unlink()
    assert checkout.publish() == 1
    assert "run `make package` first" in capsys.readouterr().err


def test_a_key_with_other_content_is_not_overwritten(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = json.loads((checkout.root / "build" / "manifest.json").read_text())
    key = f"blizzard/{manifest['artifacts'][0]['key']}"
    checkout.s3.put_object(Bucket=checkout.bucket, Key=key, Body=b"by hand")
    assert checkout.publish() == 1
    assert f"{key}: expected nothing, or an object with sha256" in capsys.readouterr().err
    assert checkout.objects()[key] == b"by hand"
    assert not (checkout.root / "samconfig.toml").exists()


def test_an_object_encrypted_by_kms_is_compared_by_content(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """With KMS, an etag is not the content's MD5."""
    monkeypatch.setattr("infra.publish.upload.hashlib.md5", lambda *_, **__: hashlib.sha1(usedforsecurity=False))
    assert checkout.publish() == 0
    assert checkout.publish() == 0


def test_a_missing_bucket_is_reported(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.publish("s3://nobody-made-this-one") == 1
    assert "there is no such bucket. Create it, or correct the URI." in capsys.readouterr().err
    assert not (checkout.root / "samconfig.toml").exists()


def test_missing_credentials_are_reported(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Connections are cached by settings, with the credentials of their creation.
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert checkout.publish() == 1
    assert "Expected credentials where boto3 looks for them" in capsys.readouterr().err


def test_nothing_is_uploaded_when_samconfig_cannot_be_changed(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout.root / "samconfig.toml").write_text("default = 3\n")
    assert checkout.publish() == 1
    assert "Put this into its [default.deploy.parameters] yourself" in capsys.readouterr().err
    assert checkout.objects() == {}
