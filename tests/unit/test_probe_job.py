"""What a probe tries in storage, one check apart from the others. Spark's part is in tests/spark/test_probe.py."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.errors import AccessDenied, BucketMissing
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from spark_job.probe.checks import Checks
from spark_job.probe.main import main, run_probe
from spark_job.probe.python_process import IMPORTED, describe_process
from spark_job.probe.rights import try_rights
from spark_job.probe.scratch import FOLDER, RACERS, create_twice, numbers_are_fenced, scratch_folder, winners_of_race

PATHS = {"lake": "s3://lake/events", "landing": "s3://landing/raw/", "config": "s3://artifacts/config-0.json"}


class Overwriting(MemoryStore):
    """S3 behind a gateway that drops If-None-Match."""

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self.put(key, data)


class Fenced(MemoryStore):
    """With the bucket's policy: numbered objects only by create."""

    def put(self, key: str, data: bytes) -> ObjectInfo:
        if "/pending/" in key:
            raise AccessDenied(f"put {key}: S3 answered 403")
        return super().put(key, data)


class Denying(MemoryStore):
    """Refuses the calls named in `denied`; `range` is a read of an object that exists."""

    denied: frozenset[str] = frozenset()

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._check("list")
        return super().list(prefix, start_after=start_after, recursive=recursive)

    def get(self, key: str) -> bytes:
        self._check("get")
        return super().get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        self._check("range")
        return super().get_range(key, start, size)

    def put(self, key: str, data: bytes) -> ObjectInfo:
        self._check("put")
        return super().put(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        self._check("delete")
        super().delete(keys)

    def _check(self, call: str) -> None:
        if call in self.denied:
            raise AccessDenied(f"{call} {self.uri}: S3 answered 403")


def denying(uri: str, *calls: str) -> Denying:
    store = Denying(lambda: 0.0, uri)
    store.denied = frozenset(calls)
    return store


def config() -> Config:
    source = {"uri": PATHS["landing"], "schema": "id STRING"}
    pipeline = {"table_uri": PATHS["lake"], "sources": {"landing": source}}
    return parse_config(json.dumps({"pipelines": {"events": pipeline}}), {})


def rights_of(stores: dict[str, MemoryStore]) -> tuple[int, list[tuple[str, str]]]:
    opened = {uri.rstrip("/"): store for uri, store in stores.items()}
    found = try_rights(config(), PATHS["config"], "x", lambda uri, log: opened[uri.rstrip("/")])
    return found.tried, [(one["action"], one["resource"]) for one in found.denied]


def stores(**denied: Iterable[str]) -> dict[str, MemoryStore]:
    """By URI: the artifacts with the configuration, an empty landing bucket, a lake."""
    made: dict[str, MemoryStore] = {
        uri: denying(uri if uri.endswith("/") else f"{uri}/", *denied.get(name, ()))
        for name, uri in {**PATHS, "config": "s3://artifacts/"}.items()
    }
    MemoryStore.put(made["s3://artifacts/"], "config-0.json", b"{}")
    return made


# --- Checks ---


def test_a_check_that_fails_hides_no_other() -> None:
    checks = Checks()

    def fail() -> int:
        raise KeyError("no such thing")

    assert checks.run("one", fail) is None
    assert checks.run("two", lambda: 2) == 2
    assert checks.run_with(None, "needs one", lambda found: found) is None
    assert checks.failed == {"one": "KeyError: 'no such thing'"}
    assert set(checks.secs) == {"one", "two"}


def test_an_error_is_one_line_without_the_request_that_s3_repeats() -> None:
    checks = Checks()

    def fail() -> None:
        raise RuntimeError("SignatureDoesNotMatch: wrong\nx-amz-security-token:secret")

    checks.run("one", fail)
    assert checks.failed == {"one": "RuntimeError: SignatureDoesNotMatch: wrong"}


def test_a_package_that_cannot_be_imported_is_named_and_the_others_are_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    found = describe_process()
    assert "obstore" in found["missing"]
    assert found["packages"].keys() | found["missing"].keys() == set(IMPORTED)
    assert "pyarrow" in found["packages"]
    assert found["python"].startswith("3.")


# --- Conditional PUT ---


@pytest.mark.parametrize(
    ("store", "refused", "winners", "fenced"),
    [(MemoryStore, True, 1, False), (Fenced, True, 1, True), (Overwriting, False, RACERS, False)],
)
def test_writes_are_tried_and_nothing_is_left(
    store: Callable[[Callable[[], float]], MemoryStore], refused: bool, winners: int, fenced: bool
) -> None:
    lake = store(lambda: 0.0)
    lake.create("_blizzard/events_landing/pending/0.json", b"the state")
    with scratch_folder(lake, "x") as scratch:
        found = create_twice(scratch), winners_of_race(scratch), numbers_are_fenced(scratch)
        assert {key.key.partition("x/")[0] for key in lake.list(FOLDER)} == {FOLDER}
    assert found == (refused, winners, fenced)
    assert [one.key for one in lake.list()] == ["_blizzard/events_landing/pending/0.json"]
    assert scratch.left_behind == []


def test_what_cannot_be_deleted_is_named() -> None:
    lake = denying("s3://lake/events/", "delete")
    with scratch_folder(lake, "x") as scratch:
        create_twice(scratch)
    (left,) = scratch.left_behind
    assert left.startswith("s3://lake/events/_blizzard/_probe/x/: delete")


def test_a_check_that_raises_leaves_nothing_either() -> None:
    lake = MemoryStore(lambda: 0.0)

    def fail() -> None:
        with scratch_folder(lake, "x") as scratch:
            create_twice(scratch)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(lake.list()) == []


# --- Rights ---


def test_with_every_right_nothing_is_denied_and_nothing_is_left() -> None:
    made = stores()
    assert rights_of(made) == (10, [])
    assert [one.key for store in made.values() for one in store.list()] == ["config-0.json"]


@pytest.mark.parametrize(
    ("where", "call", "expected"),
    [
        ("config", "get", [("s3:GetObject", "s3://artifacts/config-0.json")]),
        ("config", "list", [("s3:ListBucket", "s3://artifacts/config-0.json")]),
        ("landing", "list", [("s3:ListBucket", "s3://landing/raw/")]),
        ("landing", "get", [("s3:GetObject", "s3://landing/raw/*")]),
        ("lake", "get", [("s3:GetObject", "s3://lake/events/*")]),
        ("lake", "list", [("s3:ListBucket", "s3://lake/events/")]),
        ("lake", "put", [("s3:PutObject", "s3://lake/events/*")]),
        ("lake", "delete", [("s3:DeleteObject", "s3://lake/events/*")]),
    ],
)
def test_a_denied_right_is_named_and_the_others_are_tried(
    where: str, call: str, expected: list[tuple[str, str]]
) -> None:
    assert rights_of(stores(**{where: [call]})) == (10, expected)


def test_an_object_that_landed_is_read_since_its_key_may_be_denied() -> None:
    made = stores(landing=["range"])
    MemoryStore.put(made[PATHS["landing"]], "2026.ndjson", b"{}")
    assert rights_of(made) == (10, [("s3:GetObject", "s3://landing/raw/*")])


def test_a_bucket_that_is_missing_is_named_too() -> None:
    class Missing(MemoryStore):
        def list(self, *_: Any, **__: Any) -> Iterator[ObjectInfo]:
            raise BucketMissing("list s3://landing/raw/: there is no such bucket")

    made = stores() | {PATHS["landing"]: Missing(lambda: 0.0, PATHS["landing"])}
    assert rights_of(made) == (10, [("s3:ListBucket", "s3://landing/raw/")])


# --- The line ---


def test_without_spark_and_configuration_the_line_still_says_what_is_there(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []

    def no_spark() -> Any:
        raise OSError("no JVM")

    def log(event: str, /, **fields: object) -> None:
        lines.append({"event": event, **fields})

    run_probe(str(tmp_path / "none.json"), "x", no_spark, {}, log)
    (line,) = lines
    assert set(line["failed"]) == {"config", "spark"}
    assert line["failed"]["spark"] == "OSError: no JVM"
    assert line["driver"]["packages"]["pyarrow"]
    assert {name for name, value in line.items() if value is None} == {
        "executor", "jvm", "jars", "log_store", "written", "rights",
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [["--probe", "../x", "--config", "c"], ["--probe", "", "--config", "c"], []])
def test_an_id_that_could_not_be_part_of_a_key_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
