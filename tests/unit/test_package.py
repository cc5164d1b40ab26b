"""The contents of bundles and archives, which are reproducible."""

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from infra.package import contents
from infra.package.archives import make_tar_gz, make_zip
from infra.package.build import ROOT
from infra.package.contents import function_contents, function_names, function_requirements, job_contents
from infra.package.errors import PackageError
from infra.package.imports import archive_path, imports_of
from infra.package.lock import PinnedPackage, Target, pinned_packages, read_lock
from infra.package.manifest import Artifact, BuildManifest, read_manifest
from infra.package.wheels import WheelCache
from infra.package.wheels import contents as contents_of_wheel

FILES = {"b/x.py": b"x = 1\n" * 500, "a.py": b"", "b/__init__.py": "ä".encode()}
LOCK = (ROOT / "requirements.lock").read_text()
EMR = Target("3.11", "aarch64")


# --- Archives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [make_zip, make_tar_gz])
def test_archives_do_not_depend_on_the_order_of_files(pack: object) -> None:
    assert callable(pack)
    assert pack(FILES) == pack(dict(reversed(FILES.items())))
    assert pack(FILES) != pack({**FILES, "a.py": b"\n"})


def test_zip_entries_are_readable_by_all_and_have_no_dates() -> None:
    with zipfile.ZipFile(io.BytesIO(make_zip(FILES))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
        assert archive.namelist() == sorted(FILES)
        assert {(i.date_time, i.external_attr >> 16, i.create_system) for i in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), 0o100644, 3)
        }


def test_tar_entries_are_readable_by_all_and_have_no_owner_and_no_dates() -> None:
    packed = make_tar_gz(FILES)
    # RFC 1952: flags (with one for a file name), then the time.
    assert packed[3:8] == bytes(5)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
        assert found == FILES
        assert {(e.mtime, e.mode, e.uid, e.gid, e.uname, e.gname) for e in archive} == {(0, 0o644, 0, 0, "", "")}


# --- What a module imports --------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with every form of import between its modules."""
    name = f"p{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}"
    modules = {
        "__init__": "",
        "entry": f"from {name}.inner import near\nimport json",
        "inner/__init__": f"import {name}.pulled_in_by_inner",
        "inner/near": f"def later():\n    import sqlite3\n    from {name} import lazily",
        "pulled_in_by_inner": "",
        "lazily": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {name}.only_for_types",
        "only_for_types": "",
        "not_used": "",
    }
    for module, text in modules.items():
        file = tmp_path / name / f"{module}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_module_needs_its_transitive_imports_and_their_parent_packages(project: str) -> None:
    found = imports_of(f"{project}.entry", [project])
    needed = {"", ".entry", ".inner", ".inner.near", ".pulled_in_by_inner", ".lazily"}
    assert found.modules == {f"{project}{name}" for name in needed}
    assert {"json", "sqlite3"} <= found.outside


def test_a_module_has_its_import_path_in_an_archive(project: str) -> None:
    assert archive_path(f"{project}.inner") == f"{project}/inner/__init__.py"
    assert archive_path(f"{project}.inner.near") == f"{project}/inner/near.py"


def test_a_missing_module_is_named(project: str) -> None:
    with pytest.raises(PackageError, match=rf"{project}\.gone: expected a module of {project}, found none"):
        imports_of(f"{project}.gone", [project])


# --- What goes where --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", function_names(ROOT))
def test_a_function_gets_its_own_modules_powertools_and_nothing_of_the_other_functions(function: str) -> None:
    found = function_contents(function, LOCK)
    assert [package.name for package in found.packages] == ["aws-lambda-powertools", "jmespath", "typing-extensions"]
    others = {f"functions.{name}" for name in function_names(ROOT)} - {f"functions.{function}"}
    assert f"functions.{function}.handler" in found.modules
    assert not others & found.modules


def test_every_folder_of_functions_with_a_handler_is_packed() -> None:
    assert "collector" in function_names(ROOT)


def test_a_function_with_a_forbidden_import_is_refused_with_the_import_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contents, "FUNCTION_PACKAGES", frozenset())
    with pytest.raises(PackageError, match=r"aws-lambda-powertools.*\n.*functions\.collector\.handler → .*powertools"):
        function_contents("collector", LOCK)


def test_the_job_gets_its_imports_except_those_on_the_image() -> None:
    found = job_contents(LOCK, "aarch64")
    names = {package.name for package in found.packages}
    assert {"pydantic", "pydantic-core", "annotated-types", "ruamel-yaml", "orjson", "obstore", "botocore"} <= names
    assert {"pyarrow", "isal"} <= names
    assert not names & {"pyspark", "py4j", "delta-spark", "numpy", "pandas", "typer", "rich", "moto"}
    assert {"spark_job.tasks.reader", "spark_job.probe.main", "spark_job.probe.jvm"} <= found.modules
    assert not {name for name in found.modules if name.startswith(("functions", "blizzard.cli"))}


def test_only_an_archive_for_clusters_has_what_the_local_engine_imports() -> None:
    everywhere, on_emr = job_contents(LOCK, "aarch64"), job_contents(LOCK, "aarch64", without=contents.NOT_ON_EMR)
    left_out = {package.name for package in everywhere.packages} - {package.name for package in on_emr.packages}
    assert "deltalake" in left_out
    assert left_out <= {"deltalake", "arro3-core", "deprecated", "wrapt"}
    assert "confluent-kafka" in {package.name for package in on_emr.packages}
    assert everywhere.modules == on_emr.modules


def test_models_of_other_aws_services_are_omitted() -> None:
    wheel = {"botocore/data/s3/x.json": b"", "botocore/data/ec2/x.json": b"", "botocore/data/endpoints.json": b""}
    held = contents.Contents(frozenset(), ()).files(wheel)
    assert set(held) == {"botocore/data/s3/x.json", "botocore/data/endpoints.json"}


def test_unused_parts_of_arrow_are_omitted() -> None:
    kept = [
        "pyarrow/lib.so",
        "pyarrow/libarrow.so.2600",
        "pyarrow/_json.so",
        "pyarrow/parquet/core.py",
        "pyarrow/fs.py",
    ]
    left_out = ["pyarrow/tests/x.py", "pyarrow/libarrow_flight.so.2600", "pyarrow/_s3fs.so", "pyarrow/lib.pxd"]
    assert set(contents.Contents(frozenset(), ()).files(dict.fromkeys([*kept, *left_out], b""))) == set(kept)


def test_the_requirements_of_the_functions_agree_with_the_lock() -> None:
    assert (ROOT / "functions" / "requirements.txt").read_text() == function_requirements(ROOT, LOCK)


# --- The lock ---------------------------------------------------------------------------------------------------------


def test_the_lock_is_read_for_the_target_platform() -> None:
    text = (
        "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:" + "1" * 64 + "\n"
        "a==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:" + "2" * 64 + "\n"
        "b==3 ; sys_platform == 'win32' \\\n    --hash=sha256:" + "3" * 64 + "\n"
        "c==4 \\\n    --hash=sha256:" + "4" * 64 + " \\\n    --hash=sha256:" + "5" * 64 + "\n"
    )
    assert read_lock(text, EMR) == {
        "a": PinnedPackage("a", "1", ("1" * 64,)),
        "c": PinnedPackage("c", "4", ("4" * 64, "5" * 64)),
    }
    assert read_lock(text, Target("3.13", "aarch64"))["a"].version == "2"


def test_the_whole_lock_is_understood() -> None:
    found = read_lock(LOCK, EMR)
    assert all(package.sha256s for package in found.values())
    # All but the packages for Windows and for another Python.
    assert len(found) > 0.9 * LOCK.count("==")


def test_packages_missing_in_the_lock_are_named() -> None:
    with pytest.raises(PackageError, match=r"requirements\.lock has no nope, nowhere: update it"):
        pinned_packages(["nowhere", "orjson", "nope"], read_lock(LOCK, EMR))


# --- Wheels -----------------------------------------------------------------------------------------------------------


class Index:
    """A folder of wheels that pip uses in place of an index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def offers(self, name: str, text: str, tag: str = "py3-none-any") -> PinnedPackage:
        info = f"{name}-1.dist-info"
        files = {
            f"{name}/__init__.py": text.encode(),
            f"{name}-1.data/scripts/run": b"#!python",
            f"{name}-1.data/purelib/{name}_more.py": b"",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n".encode(),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        }
        rows = [(path, base64.urlsafe_b64encode(hashlib.sha256(data).digest())) for path, data in files.items()]
        record = "".join(f"{path},sha256={digest.decode().rstrip('=')},\n" for path, digest in rows)
        wheel = make_zip({**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()})
        (self._folder / f"{name}-1-{tag}.whl").write_bytes(wheel)
        return PinnedPackage(name, "1", (hashlib.sha256(wheel).hexdigest(),))

    def withdraws_all(self) -> None:
        for wheel in self._folder.iterdir():
            wheel.unlink()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return Index(tmp_path / "index")


@pytest.fixture
def cache(tmp_path: Path) -> WheelCache:
    return WheelCache(tmp_path / "cache", EMR)


def test_wheels_are_fetched_for_the_target_platform(index: Index, cache: WheelCache) -> None:
    wanted = [
        index.offers("pure", "a"),
        index.offers("compiled", "b", "cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64"),
        index.offers("newest", "c", "cp311-cp311-manylinux_2_34_aarch64"),
    ]
    index.offers("compiled", "other", "cp311-cp311-manylinux_2_17_x86_64")
    assert [wheel.name.partition("-")[0] for wheel in cache.fetch(wanted)] == ["pure", "compiled", "newest"]


def test_wheels_are_fetched_once(index: Index, cache: WheelCache) -> None:
    wanted = [index.offers("pure", "a")]
    first = cache.fetch(wanted)
    index.withdraws_all()
    assert cache.fetch(wanted) == first


def test_a_corrupt_cached_wheel_is_fetched_again(index: Index, cache: WheelCache) -> None:
    wanted = [index.offers("pure", "a")]
    (wheel,) = cache.fetch(wanted)
    good = wheel.read_bytes()
    wheel.write_bytes(b"spoiled")
    assert [again.read_bytes() for again in cache.fetch(wanted)] == [good]


def test_a_wheel_with_another_hash_is_refused_with_pips_output(index: Index, cache: WheelCache) -> None:
    index.offers("pure", "tampered")
    with pytest.raises(PackageError, match=r"pip could not download(?s:.)*THESE PACKAGES DO NOT MATCH THE HASHES"):
        cache.fetch([PinnedPackage("pure", "1", ("0" * 64,))])


def test_a_wheel_is_unpacked_without_scripts(index: Index, cache: WheelCache) -> None:
    (wheel,) = cache.fetch([index.offers("pure", "a")])
    info = {f"pure-1.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    assert set(contents_of_wheel(wheel)) == {"pure/__init__.py", "pure_more.py"} | info


# --- The manifest -----------------------------------------------------------------------------------------------------


def test_the_manifest_round_trips(tmp_path: Path) -> None:
    artifact = Artifact("collector", "functions/collector.zip", "collector-00.zip", "00", 1)
    manifest = BuildManifest("ARM64", "11", {"collector": artifact})
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    assert read_manifest(tmp_path) == manifest


@pytest.mark.parametrize(("text", "hint"), [(None, "run `make package` first"), ("{}", "run `make package` again")])
def test_a_missing_or_unreadable_manifest_says_what_to_do(tmp_path: Path, text: str | None, hint: str) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(PackageError, match=hint):
        read_manifest(tmp_path)
