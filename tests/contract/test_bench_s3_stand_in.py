"""The benchmarks' S3, as the clients of the project see it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from benchmarks.s3_stand_in import stand_in
from blizzard.environment import temporary_variables, variables
from blizzard.errors import AlreadyExists, NotFound
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "landing" / "date=2024-01-01").mkdir(parents=True)
    (tmp_path / "landing" / "date=2024-01-01" / "a b+c.gz").write_bytes(b"there before")
    return tmp_path


@pytest.fixture
def settings(folder: Path) -> Iterator[S3Settings]:
    buckets = {"landing": folder / "landing", "lake": folder / "lake"}
    with stand_in(buckets, latency_secs=0) as server, temporary_variables(server.environment):
        yield S3Settings.from_environment(variables())


def test_it_counts_requests_by_what_aws_charges_for_them(folder: Path) -> None:
    with stand_in({"landing": folder / "landing"}, latency_secs=0) as server, temporary_variables(server.environment):
        store = open_store("s3://landing/", S3Settings.from_environment(variables()))
        (info,) = store.list("")
        store.get(info.key)
        store.head(info.key)
        store.put("new", b"content")
        store.delete(["new"])
        assert server.requests() == {"LIST": 1, "GET": 1, "HEAD": 1, "PUT": 2}


def client(settings: S3Settings) -> Any:
    return boto3.client("s3", endpoint_url=settings.endpoint_url, region_name="us-east-1")


def test_what_lies_in_the_folder_can_be_listed_and_read(settings: S3Settings) -> None:
    store = open_store("s3://landing/", settings)
    (info,) = store.list("")
    assert info.key == "date=2024-01-01/a b+c.gz"
    assert store.get(info.key) == b"there before"
    assert store.head(info.key) == info
    with store.open(info.key) as reader:
        assert reader.read() == b"there before"
    assert [*store.list_folders("")] == ["date=2024-01-01/"]


def test_what_is_written_lies_in_the_folder(settings: S3Settings, folder: Path) -> None:
    store = open_store("s3://lake/table/", settings)
    store.put("a/b", b"one")
    store.put("a/b", b"two")
    assert (folder / "lake" / "table" / "a" / "b").read_bytes() == b"two"
    store.delete(["a/b"])
    assert not (folder / "lake" / "table" / "a" / "b").exists()
    with pytest.raises(NotFound):
        store.get("a/b")


def test_only_the_first_of_two_creates_an_object(settings: S3Settings) -> None:
    store = open_store("s3://lake/", settings)
    store.create("log/0", b"mine")
    with pytest.raises(AlreadyExists):
        store.create("log/0", b"yours")
    assert store.get("log/0") == b"mine"


def test_listings_go_on_behind_a_key_and_page_by_page(settings: S3Settings) -> None:
    store = open_store("s3://lake/", settings)
    for number in range(1_005):
        store.put(f"d/{number:04}", b"x")
    assert [info.key for info in store.list("d/")] == [f"d/{number:04}" for number in range(1_005)]
    assert [info.key for info in store.list("d/", start_after="d/1002")] == ["d/1003", "d/1004"]


def test_a_multipart_upload_becomes_one_object(settings: S3Settings, folder: Path) -> None:
    body = bytes(range(256)) * 40_000
    client(settings).upload_file(_file(folder, body), "lake", "large")
    assert (folder / "lake" / "large").read_bytes() == body
    part = client(settings).get_object(Bucket="lake", Key="large", Range="bytes=256-511")["Body"].read()
    assert part == bytes(range(256))


def _file(folder: Path, body: bytes) -> str:
    (folder / "upload").write_bytes(body)
    return str(folder / "upload")


def test_metadata_and_copies_are_kept(settings: S3Settings) -> None:
    s3 = client(settings)
    s3.put_object(Bucket="lake", Key="a", Body=b"text", Metadata={"writer": "w1"})
    s3.copy_object(Bucket="lake", Key="b", CopySource="lake/a")
    assert s3.head_object(Bucket="lake", Key="b")["Metadata"] == {"writer": "w1"}


def test_each_request_takes_the_latency_that_is_asked_for(folder: Path) -> None:
    with stand_in({"landing": folder / "landing"}, latency_secs=0.2) as server, temporary_variables(server.environment):
        store = open_store("s3://landing/", S3Settings.from_environment(variables()))
        began = time.monotonic()
        for _ in range(3):
            store.head("date=2024-01-01/a b+c.gz")
        assert time.monotonic() - began >= 0.6
