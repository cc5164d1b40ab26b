"""Configurations that a stack can run, uploads, and samconfig.toml."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import cast

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.load import read_config
from blizzard.config.publish import to_published
from blizzard.errors import ConfigError
from blizzard.storage.memory import MemoryStore
from infra.publish.errors import PublishError
from infra.publish.publish import ArtifactLocation
from infra.publish.samconfig import overrides, with_parameters
from infra.publish.stack_config import Buckets, Landing, read_stack_config
from infra.publish.upload import fetch, upload

# --- What the stack can run -------------------------------------------------------------------------------------------


def pipeline(table_uri: str, *uris: str) -> dict[str, object]:
    sources = {f"s{number}": {"uri": uri, "format": "text"} for number, uri in enumerate(uris)}
    return {"table_uri": table_uri, "sources": sources}


def fit(*pipelines: dict[str, object], **environ: str) -> Buckets:
    text = json.dumps({"pipelines": {f"p{number}": value for number, value in enumerate(pipelines)}}, indent=1)
    return read_stack_config(text, environ, name="pipelines.yaml", folder="/data").buckets


def problems(*pipelines: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigError) as error:
        fit(*pipelines)
    return error.value.problems


def test_buckets_and_the_common_prefix_of_all_sources_are_found() -> None:
    one = pipeline("s3://lake/a", "s3://landing/raw/a/x/", "s3://landing/raw/a/y/")
    two = pipeline("s3://lake/b", "s3://landing/raw/ab/")
    assert fit(one) == Buckets((Landing("landing", "raw/a/"),), "lake", "a/")
    assert fit(one, two) == Buckets((Landing("landing", "raw/"),), "lake")
    assert fit(one, pipeline("s3://lake/c", "s3://landing/other/")) == Buckets((Landing("landing", ""),), "lake")


def test_the_common_folder_of_all_tables_is_found() -> None:
    def prefix(*uris: str) -> str:
        return fit(*(pipeline(uri, f"s3://landing/{n}/") for n, uri in enumerate(uris))).lake_prefix

    assert prefix("s3://lake/data/events") == prefix("s3://lake/data/events/") == "data/events/"
    assert prefix("s3://lake/data/events", "s3://lake/data/events_v2") == "data/"
    assert prefix("s3://lake/data/events", "s3://lake/other") == ""
    assert prefix("s3://lake/data/größe/x") == "data/"


def test_each_landing_bucket_has_the_common_prefix_of_its_own_sources() -> None:
    one = pipeline("s3://lake/a", "s3://zebra/raw/x/", "s3://ant/in/y/", "s3://zebra/raw/z/")
    two = pipeline("s3://lake/b", "s3://bee/", "s3://ant/in/x/")
    found = fit(one, two)
    assert found == Buckets((Landing("zebra", "raw/"), Landing("ant", "in/"), Landing("bee", "")), "lake")
    assert found.parameters() == {
        "LandingBucketName": "zebra",
        "LandingPrefix": "raw/",
        "LandingBucketName2": "ant",
        "LandingPrefix2": "in/",
        "LandingBucketName3": "bee",
        "LandingPrefix3": "",
        "LandingBucketName4": "",
        "LandingPrefix4": "",
        "LakeBucketName": "lake",
        "LakePrefix": "",
    }


def test_a_fifth_landing_bucket_is_refused_with_the_four_others() -> None:
    four = pipeline("s3://lake/a", *(f"s3://landing-{number}/raw/" for number in range(1, 5)))
    assert len(fit(four).landings) == 4
    (text,) = problems(four, pipeline("s3://lake/b", "s3://landing-2/more/", "s3://landing-5/raw/"))
    assert text.startswith("pipelines.yaml:32: pipelines.p1.sources.s1.uri: found the bucket landing-5; expected ")
    assert "landing-1, landing-2, landing-3 or landing-4, as above: a stack has at most 4 landing buckets" in text
    assert text.endswith("Deploy a second stack for other buckets")


def test_the_common_prefix_ends_before_a_folder_that_the_template_does_not_allow() -> None:
    assert fit(pipeline("s3://lake/a", "s3://landing/raw/new files/x/")).landings == (Landing("landing", "raw/"),)


def test_variables_are_resolved() -> None:
    assert fit(pipeline("s3://${LAKE}/a", "s3://landing/raw/"), LAKE="big").lake == "big"


def test_all_problems_of_a_stack_are_reported_at_once_with_line_numbers() -> None:
    one = pipeline("lake/a", "s3://landing/raw/", "file:///incoming")
    two = pipeline("s3://lake/b", "s3://landing/more/")
    three = pipeline("s3://pond/c", "s3://landing/most/")
    four = pipeline("s3://landing/tables/d", "s3://landing/least/")
    found = problems(one, two, three, four)
    assert [line.partition(": found ")[0] for line in found] == [
        "pipelines.yaml:4: pipelines.p0.table_uri",
        "pipelines.yaml:11: pipelines.p0.sources.s1.uri",
        "pipelines.yaml:26: pipelines.p2.table_uri",
        "pipelines.yaml:35: pipelines.p3.table_uri",
        "pipelines.yaml:35: pipelines.p3.table_uri",
    ]
    assert "found file:///data/lake/a; expected s3://bucket/…" in found[0]
    assert "found the bucket pond; expected lake, as above: a stack has one lake bucket" in found[2]
    assert "found landing, a landing bucket; expected another bucket" in found[4]


def topics(**security: str) -> dict[str, object]:
    kafka = {"bootstrap_servers": "b-1:9098", "topics": ["clicks"], **({"security": security} if security else {})}
    return {"kafka": kafka, "format": "envelope"}


def test_topics_need_no_bucket_beside_those_of_files() -> None:
    mixed = pipeline("s3://lake/t", "s3://landing/raw/")
    mixed["sources"] = {**cast("dict[str, object]", mixed["sources"]), "clicks": topics()}
    assert fit(mixed) == Buckets((Landing("landing", "raw/"),), "lake", "t/")


@pytest.mark.parametrize("lake", ["lake", f"{'l' * 62}e", f"{'l' * 54}.lake"])
def test_a_configuration_of_topics_alone_gets_a_landing_bucket_beside_the_lake(lake: str) -> None:
    buckets = fit({"table_uri": f"s3://{lake}/t", "sources": {"clicks": topics()}})
    (landing,) = buckets.landings
    assert landing.bucket == f"{lake[:55].rstrip('.')}-landing"
    assert len(landing.bucket) <= 63


def test_certificates_of_authorities_are_taken_along_and_those_of_a_client_refused(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
    trusted = {"protocol": "SSL", "ca_location": str(authority)}
    text = json.dumps({"pipelines": {"p": {"table_uri": "s3://lake/t", "sources": {"clicks": topics(**trusted)}}}})
    stack = read_stack_config(text, {}, name="pipelines.yaml", folder="/data")
    assert json.dumps(authority.read_text()) in to_published(stack.config)
    assert str(authority) not in to_published(stack.config)
    client = {"protocol": "SSL", "certificate_location": "/etc/client.pem", "key_location": "/etc/key.pem"}
    found = problems({"table_uri": "s3://lake/t", "sources": {"clicks": topics(**client)}})
    assert len(found) == 2
    assert "certificate_location: found the file /etc/client.pem, which no machine of the job has; log in" in found[0]


def test_problems_of_the_configuration_are_reported_as_by_validate() -> None:
    broken = {"table_uri": "s3://lake/a", "sources": {}, "colour": 1}
    text = json.dumps({"pipelines": {"p0": broken}}, indent=1)
    expected = read_config(text, {}, name="pipelines.yaml", folder="/data").problems
    assert len(expected) == 2
    assert problems(broken) == [str(problem) for problem in expected]


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://arts", ArtifactLocation("arts", "")),
        ("s3://arts/", ArtifactLocation("arts", "")),
        ("s3://arts/a/b", ArtifactLocation("arts", "a/b/")),
        ("s3://arts/a/b/", ArtifactLocation("arts", "a/b/")),
    ],
)
def test_artifacts_are_at_a_bucket_and_an_optional_prefix(uri: str, location: ArtifactLocation) -> None:
    assert ArtifactLocation.parse(uri) == location


@pytest.mark.parametrize("uri", ["", "arts", "s3://", "s3://a", "s3://arts//a", "s3://arts/a b", "https://arts/a"])
def test_an_invalid_artifact_location_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="ARTIFACTS: expected s3://bucket"):
        ArtifactLocation.parse(uri)


# --- Uploads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: 0.0)


def test_an_object_with_the_same_content_is_not_written_again(store: MemoryStore) -> None:
    assert upload(store, "a-1", b"content").is_new
    assert not upload(store, "a-1", b"content").is_new
    assert store.get("a-1") == b"content"


def test_an_object_with_other_content_is_never_overwritten(store: MemoryStore) -> None:
    store.put("a-1", b"by hand")
    with pytest.raises(PublishError, match=r"a-1: expected nothing, or an object with sha256 ed7002b4.*Delete it"):
        upload(store, "a-1", b"content")
    assert store.get("a-1") == b"by hand"


def test_a_fetched_object_is_verified_by_its_hash(store: MemoryStore) -> None:
    store.put("a-1", b"content")
    assert fetch(store, "a-1", "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73") == b"content"
    with pytest.raises(PublishError, match=r"a-1: expected sha256 00, found ed7002b4"):
        fetch(store, "a-1", "00")
    with pytest.raises(PublishError, match="expected an artifact of the release, found no such object"):
        fetch(store, "a-2", "00")


# --- samconfig.toml ---------------------------------------------------------------------------------------------------

OURS = {"ConfigKey": "config-1.json", "LandingPrefix": ""}


def parameters(text: str, environment: str = "default") -> dict[str, str]:
    """Parsed as SAM does."""
    items = shlex.split(tomllib.loads(text)[environment]["deploy"]["parameters"]["parameter_overrides"])
    return dict(item.partition("=")[::2] for item in items)  # type: ignore[misc]


def test_a_new_file_has_the_parameters_and_the_version_that_sam_requires() -> None:
    text = with_parameters("", OURS)
    assert tomllib.loads(text)["version"] == 0.1
    assert parameters(text) == OURS


GUIDED = """\
# made by sam deploy --guided
version = 0.1

[default.deploy.parameters]
stack_name = "blizzard"  # ours
resolve_s3 = true
parameter_overrides = "ConfigKey=\\"old.json\\" MaxExecutors=\\"8\\" DispatchSchedule=\\"rate(5 minutes)\\""
region = "eu-west-1"

[default.build.parameters]
cached = true

[prod.deploy.parameters]
parameter_overrides = "ConfigKey=prod.json"
"""


def test_everything_else_in_the_file_stays_unchanged() -> None:
    text = with_parameters(GUIDED, OURS)
    changed = [(old, new) for old, new in zip(GUIDED.splitlines(), text.splitlines(), strict=True) if old != new]
    assert len(changed) == 1
    assert parameters(text) == {"ConfigKey": "config-1.json", "MaxExecutors": "8", "LandingPrefix": ""} | {
        "DispatchSchedule": "rate(5 minutes)"
    }
    assert with_parameters(text, OURS) == text


def test_another_environment_has_its_own_parameters() -> None:
    text = with_parameters(GUIDED, OURS, "prod")
    assert parameters(text, "prod") == OURS
    assert parameters(text)["ConfigKey"] == "old.json"
    assert parameters(with_parameters(GUIDED, OURS, "test"), "test") == OURS


@pytest.mark.parametrize(
    "value",
    [
        '["A=1", "ConfigKey=old"]',
        '[\n  "A=1",  # one\n  "ConfigKey=old",\n]',
        '"""\nA=1\nConfigKey=old\n"""',
        "'ParameterKey=A,ParameterValue=1 ParameterKey=ConfigKey,ParameterValue=old'",
    ],
)
def test_every_form_of_overrides_that_sam_accepts_is_supported(value: str) -> None:
    before = (
        f"version = 0.1\n[default.deploy.parameters]\nparameter_overrides = {value}\nregion = 'r'\n[other]\na = 1\n"
    )
    text = with_parameters(before, OURS)
    assert parameters(text) == {"A": "1", **OURS}
    assert tomllib.loads(text)["default"]["deploy"]["parameters"]["region"] == "r"
    assert tomllib.loads(text)["other"] == {"a": 1}


@pytest.mark.parametrize("end", ["", "\n", "\n[default.build.parameters]\ncached = true"])
def test_a_table_without_overrides_gets_them(end: str) -> None:
    text = with_parameters(f"version = 0.1\n[default.deploy.parameters]\nstack_name = 'x'{end}", OURS)
    assert parameters(text) == OURS
    assert tomllib.loads(text)["default"]["deploy"]["parameters"]["stack_name"] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "[default.deploy.parameters]\nparameter_overrides = 7\n",
        "default = 3\n",
        "no toml",
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(
        PublishError, match=r'cannot be changed safely(?s:.)*yourself:\nparameter_overrides = "ConfigKey='
    ):
        with_parameters(text, OURS)


@pytest.mark.parametrize(
    "text",
    ["[default]\ndeploy = {parameters = {region = 'r'}}\n", "[default.deploy]\nparameters.region = 'r'\n"],
)
def test_inline_tables_and_dotted_keys_get_the_parameters(text: str) -> None:
    changed = with_parameters(text, OURS)
    assert parameters(changed) == OURS
    assert tomllib.loads(changed)["default"]["deploy"]["parameters"]["region"] == "r"


def test_a_string_that_looks_like_the_table_is_not_changed() -> None:
    note = '[notes]\nold = """\n[default.deploy.parameters]\nparameter_overrides = "A=1"\n"""\n'
    text = note + with_parameters("", {"A": "1"}).replace("version = 0.1\n", "")
    changed = with_parameters(text, OURS)
    assert changed.startswith(note)
    assert parameters(changed) == {"A": "1", **OURS}


def test_a_file_that_would_change_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tomlkit.dumps
    monkeypatch.setattr(tomlkit, "dumps", lambda document: real(document).replace("eu-west-1", "us-east-1"))
    with pytest.raises(PublishError, match="its layout is not supported"):
        with_parameters(GUIDED, OURS)


names = st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True)
values = st.text(st.characters(codec="utf-8", exclude_characters="\\\"'`$", exclude_categories=["C", "Z"]), max_size=12)


@given(st.dictionaries(names, values, max_size=4), st.dictionaries(names, values, max_size=4))
def test_published_parameters_win_and_other_parameters_stay(theirs: dict[str, str], ours: dict[str, str]) -> None:
    text = f"[default.deploy.parameters]\nparameter_overrides = {json.dumps(overrides(theirs), ensure_ascii=False)}\n"
    assert parameters(with_parameters(text, ours)) == {**theirs, **ours}


def test_git_ignores_samconfig_and_build() -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert {"/samconfig.toml", "/build/", "/.aws-sam/"} <= set(ignored)
