"""Keys, prefixes and URIs: decided without any storage."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import ConfigError, NotFound, StorageError
from blizzard.storage.keys import check_key, is_plain, is_relative_path, may_contain, parent_folder
from blizzard.storage.local import LocalStore
from blizzard.storage.open import open_store, read_text
from blizzard.storage.s3 import S3Settings

SETTINGS = S3Settings("http://127.0.0.1:9", "us-east-1", max_attempts=1)


@pytest.mark.parametrize("key", ["a", "a/b", "date=2024-01-28/é x+%.gz", "%2F", "a/...", ".hidden", '[x]{y}|\\^`<>"*'])
def test_a_plain_key_is_passed_to_obstore(key: str) -> None:
    assert is_plain(key)


@pytest.mark.parametrize(
    "key",
    ["/a", "a/", "a//b", "a/./b", "a/../b", "..", ".", "", "tab\t", "nl\n", "nul\0", "del\x7f", "c1\x85"],
    ids=ascii,
)
def test_a_key_that_obstore_refuses_or_misreads_is_not_plain(key: str) -> None:
    assert not is_plain(key)


def test_a_local_file_name_may_have_control_characters_but_no_nul() -> None:
    assert is_relative_path("tab\t/x\n")
    assert not is_relative_path("nul\0")


def test_a_key_may_have_1024_bytes_and_no_more() -> None:
    check_key("é" * 512, "s3://b/")
    with pytest.raises(StorageError, match="1025 bytes, expected at most 1024"):
        check_key("é" * 512 + "a", "s3://b/")


@pytest.mark.parametrize(("key", "said"), [("", "an empty one"), ("\ud800", "not valid Unicode")], ids=ascii)
def test_an_invalid_key_is_refused_with_the_reason(key: str, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        check_key(key, "s3://b/")


@pytest.mark.parametrize(("prefix", "folder"), [("", ""), ("da", ""), ("a/", "a/"), ("a/b/da", "a/b/")])
def test_the_folder_of_a_prefix_ends_at_its_last_slash(prefix: str, folder: str) -> None:
    assert parent_folder(prefix) == folder


_TEXT = st.text("a-/0é", max_size=5)


@given(folder=_TEXT.map(lambda text: text + "/"), rest=_TEXT, prefix=_TEXT, start_after=_TEXT)
def test_no_folder_with_a_matching_key_is_pruned(folder: str, rest: str, prefix: str, start_after: str) -> None:
    key = folder + rest
    if key.startswith(prefix) and key.encode() > start_after.encode():
        assert may_contain(folder, prefix, start_after)


@pytest.mark.parametrize(
    ("folder", "prefix", "start_after"), [("a/", "b", ""), ("a/", "a/b/", "a0"), ("a/", "", "b"), ("a/b/", "a/c", "")]
)
def test_a_folder_without_a_possible_match_is_pruned(folder: str, prefix: str, start_after: str) -> None:
    assert not may_contain(folder, prefix, start_after)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://landing/raw-events/", "s3://landing/raw-events/"),
        ("s3a://landing/raw-events", "s3://landing/raw-events/"),
        ("s3://landing", "s3://landing/"),
        ("s3://landing/", "s3://landing/"),
        ("s3://landing/a b+%20é?x#y", "s3://landing/a b+%20é?x#y/"),
        ("file:///data/a%20b", "file:///data/a%20b/"),
        ("file:/data", "file:///data/"),
        ("/data/x/", "file:///data/x/"),
        ("/", "file:///"),
        ("data", f"file://{Path.cwd()}/data/"),
        ("odd:name", f"file://{Path.cwd()}/odd:name/"),
    ],
)
def test_a_uri_opens_the_store_below_it(uri: str, root: str) -> None:
    assert open_store(uri, SETTINGS).uri == root


@pytest.mark.parametrize(
    "uri", ["", "s3:///prefix", "s3:bucket", "gs://bucket/x", "memory://x/", "file://host/x", "file:x"]
)
def test_a_uri_without_a_store_is_a_configuration_error(uri: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        open_store(uri, SETTINGS)


def test_opening_a_store_sends_no_request(tmp_path: Path) -> None:
    open_store("s3://bucket/x", SETTINGS)
    open_store(str(tmp_path / "missing"), SETTINGS)
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_read_by_path_and_by_uri_and_over_links(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("é: 1")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    for uri in (str(tmp_path / "link.yaml"), f"file://{tmp_path}/real.yaml"):
        assert read_text(uri, SETTINGS) == "é: 1"


def test_a_missing_or_binary_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"ab\xff")
    with pytest.raises(NotFound, match="no such file"):
        read_text(str(tmp_path / "missing"), SETTINGS)
    with pytest.raises(ConfigError, match="expected UTF-8 text, found the byte 0xff at 2"):
        read_text(str(tmp_path / "binary"), SETTINGS)


def test_a_missing_root_is_empty_only_if_it_may_be_missing(tmp_path: Path) -> None:
    table = open_store(str(tmp_path / "table"), SETTINGS, may_be_missing=True)
    assert isinstance(table, LocalStore)
    assert list(table.list()) == []


def test_settings_are_read_from_the_variables_of_the_aws_sdks() -> None:
    environ = {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3", "AWS_MAX_ATTEMPTS": "3"}
    found = S3Settings.from_environment({**environ, "AWS_REGION": "r", "AWS_DEFAULT_REGION": "other"})
    assert (found.endpoint_url, found.region, found.max_attempts) == ("http://s3", "r", 3)
    assert S3Settings.from_environment({}) == S3Settings()


@pytest.mark.parametrize("attempts", ["0", "-1", "many", "1.5"])
def test_a_malformed_limit_is_a_configuration_error(attempts: str) -> None:
    with pytest.raises(ConfigError, match="AWS_MAX_ATTEMPTS: expected a whole number"):
        S3Settings.from_environment({"AWS_MAX_ATTEMPTS": attempts})


def test_an_endpoint_needs_its_scheme() -> None:
    with pytest.raises(ConfigError, match="expected http"):
        S3Settings.from_environment({"AWS_ENDPOINT_URL": "localhost:5000"})


def test_importing_storage_loads_no_client_and_needs_no_environment() -> None:
    program = """
import sys
import blizzard.storage, blizzard.storage.memory, blizzard.storage.open
assert not {"boto3", "botocore", "obstore"} & set(sys.modules)
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env={"PYTHONPATH": str(root)})


@pytest.mark.parametrize(
    "host", ["storage.googleapis.com", "my-bucket.storage.googleapis.com", "STORAGE.googleapis.com."]
)
def test_an_endpoint_that_would_ignore_conditional_writes_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"Google Cloud Storage ignores that header"):
        S3Settings.from_environment({"AWS_ENDPOINT_URL": f"https://{host}:443/"})


def test_an_endpoint_whose_name_only_resembles_one_that_is_refused_is_used() -> None:
    url = "https://not-storage.googleapis.com.example"
    assert S3Settings.from_environment({"AWS_ENDPOINT_URL_S3": url}).endpoint_url == url
