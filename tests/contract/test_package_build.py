"""`make package` on this checkout: reproducible archives that contain all that their programs import."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from blizzard.config.spark_settings import EMR_PYTHON
from infra.package.build import HASH_CHARACTERS, MACHINES, ROOT, sources_sha256
from infra.package.contents import NOT_IN_FUNCTIONS, NOT_ON_EMR, function_names
from infra.package.manifest import ARCHIVE, ENTRY, LOG_STORE, BuildManifest, read_manifest

PACKED = ("blizzard", "functions", "spark_job", "infra", "requirements.lock", "pyproject.toml")
OF_LAMBDA = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3")
OF_EMR = ("pyspark", "py4j")
PRINTED = "printed.txt"
"""What the command printed, in the folder that it packed."""
QUICKLY = """
from infra.package import archives
archives.LEVEL = 1
from infra.package.__main__ import main
raise SystemExit(main())
"""
"""`python -m infra.package`, but compressing less: half of its time, and nothing here depends on it."""
MACHINE_OF_ELF = {"aarch64": 183, "x86_64": 62}


def checkout(folder: Path, source: Path = ROOT, modified_ts: float | None = None) -> Path:
    """A copy of the sources of artifacts, with the jar and the wheels of this checkout."""
    folder.mkdir()
    for name in PACKED:
        ignored = shutil.ignore_patterns("__pycache__")
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, ignore=ignored)
        else:
            shutil.copy(source / name, folder)
    (folder / "jars").mkdir()
    shutil.copy(source / "jars" / "blizzard-logstore.jar", folder / "jars")
    (folder / ".cache").mkdir()
    (ROOT / ".cache" / "wheels").mkdir(parents=True, exist_ok=True)
    (folder / ".cache" / "wheels").symlink_to(ROOT / ".cache" / "wheels")
    if modified_ts is not None:
        for file in folder.rglob("*"):
            os.utime(file, (modified_ts, modified_ts), follow_symlinks=False)
    return folder


def package(root: Path, architecture: str = "arm64", umask: int = 0o022, **environ: str) -> BuildManifest:
    command = [sys.executable, "-c", QUICKLY, "--arch", architecture]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, **environ}, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (root / PRINTED).write_text(done.stdout)
    return read_manifest(root / "build")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, packed for this machine's architecture."""
    root = checkout(tmp_path_factory.mktemp("packed") / "checkout")
    package(root, platform.machine())
    return root


@pytest.fixture(scope="module")
def manifest(root: Path) -> BuildManifest:
    return read_manifest(root / "build")


def hashes(root: Path) -> dict[str, str]:
    files = sorted(file for file in (root / "build").rglob("*") if file.is_file())
    return {str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def linked(folder: Path, names: tuple[str, ...]) -> Path:
    """A folder with only these top-level modules of this environment."""
    folder.mkdir()
    for name in names:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        file = Path(spec.origin)
        source = file.parent if file.name == "__init__.py" else file
        (folder / source.name).symlink_to(source)
    return folder


def run_isolated(code: str, *folders: Path) -> "subprocess.CompletedProcess[str]":
    """Run a Python that imports only from these folders and the standard library, with an empty environment."""
    paths = [str(folder) for folder in folders]
    program = f"import sys; sys.path[:0] = {paths!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], env={}, capture_output=True, text=True, check=False
    )


def unzipped(root: Path, function: str, folder: Path) -> Path:
    with zipfile.ZipFile(root / "build" / "functions" / f"{function}.zip") as archive:
        archive.extractall(folder)
    return folder


# --- The same bytes ---------------------------------------------------------------------------------------------------


def test_packing_is_reproducible_in_any_folder(root: Path, tmp_path: Path) -> None:
    other = checkout(tmp_path / "another place", root, modified_ts=946_684_800)
    # Leftovers of a test run.
    (other / "blizzard" / "__pycache__").mkdir()
    (other / "blizzard" / "__pycache__" / "batch.cpython-311.pyc").write_bytes(b"")
    package(other, platform.machine(), 0o077, TZ="Asia/Kathmandu", LC_ALL="C", PYTHONHASHSEED="7", HOME=str(tmp_path))
    assert hashes(other) == hashes(root)


def test_a_changed_source_changes_the_key(root: Path, manifest: BuildManifest, tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", root)
    changed = other / "spark_job" / "main.py"
    changed.write_text(changed.read_text() + "# changed\n")
    again = package(other, platform.machine())
    differing = {name for name, artifact in again.artifacts.items() if artifact != manifest.artifacts[name]}
    assert differing == {ARCHIVE}
    assert again.sources_sha256 != manifest.sources_sha256


def test_the_manifest_names_every_artifact_by_its_hash(root: Path, manifest: BuildManifest) -> None:
    assert set(manifest.artifacts) == {*function_names(root), ARCHIVE, ENTRY, LOG_STORE}
    for artifact in manifest.artifacts.values():
        content = (root / "build" / artifact.file).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (artifact.sha256, artifact.size_bytes)
        assert artifact.sha256[:HASH_CHARACTERS] in artifact.key
    assert manifest.sources_sha256 == sources_sha256(root)


# --- Functions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", function_names(ROOT))
def test_a_bundle_contains_all_that_its_handler_imports(root: Path, function: str, tmp_path: Path) -> None:
    """With Lambda's packages. Imports each module of ours, not only those that the handler imports at once."""
    bundle, runtime = unzipped(root, function, tmp_path / "bundle"), linked(tmp_path / "runtime", OF_LAMBDA)
    ours = [path for folder in ("blizzard", "functions") for path in sorted((bundle / folder).rglob("*.py"))]
    modules = [
        str(path.relative_to(bundle).with_suffix("")).replace("/", ".").removesuffix(".__init__") for path in ours
    ]
    code = f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
    done = run_isolated(f"{code}print(sys.modules['functions.{function}.handler'].handler)", bundle, runtime)
    assert done.stderr == ""
    assert done.stdout != ""


@pytest.mark.parametrize("function", function_names(ROOT))
def test_a_bundle_is_small_pure_python_and_has_nothing_of_the_job(root: Path, function: str) -> None:
    file = root / "build" / "functions" / f"{function}.zip"
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    assert file.stat().st_size < 2_000_000
    assert not [name for name in names if name.endswith((".pyc", ".so"))]
    absent = {
        "pydantic",
        "pydantic_core",
        "pyarrow",
        "ruamel",
        "orjson",
        "typer",
        "rich",
        "boto3",
        "botocore",
        "spark_job",
    }
    assert not {name.partition("/")[0] for name in names} & (absent | set(NOT_IN_FUNCTIONS))
    assert "blizzard/config/model.py" not in names


# --- The job ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["ARM64", "X86_64"])
def test_the_archive_is_compiled_for_the_machines_of_the_job(
    root: Path, manifest: BuildManifest, tmp_path: Path, architecture: str
) -> None:
    if MACHINES[architecture] == platform.machine():
        built = manifest
    else:
        root = checkout(tmp_path / "checkout")
        built = package(root, architecture)
    archive = root / "build" / built.artifacts[ARCHIVE].file
    with tarfile.open(archive) as packed:
        libraries = {entry.name: packed.extractfile(entry) for entry in packed if entry.name.endswith(".so")}
        machines = {name: file.read(20)[18] for name, file in libraries.items() if file is not None}
    assert {name.partition("/")[0] for name in machines} >= {"pydantic_core", "orjson", "obstore"}
    assert set(machines.values()) == {MACHINE_OF_ELF[MACHINES[architecture]]}


RUNS_HERE = sys.version_info[:2] == tuple(map(int, EMR_PYTHON.split(".")))


@pytest.mark.skipif(not RUNS_HERE, reason=f"the archive is compiled for Python {EMR_PYTHON}, as EMR has it")
def test_the_archive_contains_all_that_the_job_imports(root: Path, manifest: BuildManifest, tmp_path: Path) -> None:
    """The entry's help is printed after its imports; then come the imports that the job makes later."""
    deps, image = tmp_path / "deps", linked(tmp_path / "image", OF_EMR)
    with tarfile.open(root / "build" / manifest.artifacts[ARCHIVE].file) as archive:
        archive.extractall(deps, filter="data")
    entry = root / "build" / manifest.artifacts[ENTRY].file
    helped = run_isolated(
        f"sys.argv = ['entry', '--help']\nimport runpy; runpy.run_path({str(entry)!r}, run_name='__main__')",
        deps,
        image,
    )
    assert helped.stderr == ""
    assert helped.stdout.startswith("usage: blizzard-job")
    later = """
import boto3, obstore.auth.boto3, pydantic, ruamel.yaml, orjson, isal.igzip, pyarrow.json, pyarrow.parquet
import io
pyarrow.parquet.write_table(pyarrow.json.read_json(io.BytesIO(b'{"a": 1}')), io.BytesIO())
import blizzard.config, blizzard.storage.s3, spark_job.tasks.reader, spark_job.table.delta_table
print(boto3.client("s3", region_name="eu-west-1").meta.service_model.service_name)
ours = ("boto3", "pydantic", "orjson", "pyarrow", "isal", "spark_job")
print({sys.modules[name].__file__.startswith(sys.path[0]) for name in ours})
"""
    assert run_isolated(later, deps, image).stdout.split() == ["s3", "{True}"]


def test_the_archive_has_nothing_of_the_image_or_of_the_local_engine(root: Path, manifest: BuildManifest) -> None:
    with tarfile.open(root / "build" / manifest.artifacts[ARCHIVE].file) as archive:
        names = archive.getnames()
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {"pyspark", "py4j", "delta", "numpy", "pandas"}
    assert not tops & {*NOT_ON_EMR, "arro3"}
    assert not [name for name in names if name.endswith(".pyc")]


# --- The command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_its_artifacts(root: Path, manifest: BuildManifest) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in (root / PRINTED).read_text().splitlines()}
    assert set(rows) == set(manifest.artifacts)
    assert rows[ARCHIVE][0] == f"build/{manifest.artifacts[ARCHIVE].file}"


def test_a_checkout_without_the_log_store_is_told_what_to_do(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    (root / "jars" / "blizzard-logstore.jar").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "infra.package"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "run `make setup` first" in done.stderr) == (1, True)
    assert not (root / "build").exists()
