"""The set-up's Java, log store and class archive, on machines that lack something or were interrupted."""

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from blizzard.errors import SetupError
from blizzard.setup.java import Java, find_java, find_jdk, inspect
from infra.setup.class_archive import RUNS, ClassArchive
from infra.setup.logstore import LogStoreJar
from infra.setup.spark_env import write_spark_env
from tests.unit.shell_scripts import script

# --- Java -------------------------------------------------------------------------------------------------------------


def java(home: Path, major: int, *, javac: bool = True) -> Path:
    properties = f"    java.home = {home}\n    java.specification.version = {major}"
    script(home / "bin" / "java", f"cat >&2 <<END\n{properties}\nEND")
    if javac:
        script(home / "bin" / "javac")
    return home


@pytest.fixture
def jvms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for JVMs; neither PATH nor JAVA_HOME has a Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    return tmp_path / "jvm"


def test_java_17_is_found_next_to_a_newer_default(jvms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = java(jvms / "a-25", 25)
    monkeypatch.setenv("JAVA_HOME", str(newer))
    monkeypatch.setattr("shutil.which", lambda _: str(newer / "bin" / "java"))
    java(jvms / "b-21", 21)
    java(jvms / "c-17", 17)
    assert find_jdk(jvms) == Java(jvms / "c-17", 17)


def test_java_21_is_used_without_a_17(jvms: Path) -> None:
    java(jvms / "a-25", 25)
    java(jvms / "b-21", 21)
    assert find_jdk(jvms).major == 21


def test_a_supported_java_home_is_preferred(jvms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(jvms / "a-17", 17)
    monkeypatch.setenv("JAVA_HOME", str(java(jvms / "b-21", 21)))
    assert find_jdk(jvms) == Java(jvms / "b-21", 21)


def test_a_machine_without_java_is_told_what_to_install(jvms: Path) -> None:
    with pytest.raises(SetupError, match=r"found no Java at all: sudo apt install openjdk-17-jdk-headless") as error:
        find_jdk(jvms)
    assert "\n" not in str(error.value)


def test_a_machine_with_the_wrong_java_is_told_what_it_has(jvms: Path) -> None:
    java(jvms / "a-25", 25)
    java(jvms / "b-17", 17, javac=False)
    expected = f"found Java 25 in {jvms}/a-25, Java 17 without javac in {jvms}/b-17: sudo apt install openjdk-17"
    with pytest.raises(SetupError, match=re.escape(expected)):
        find_jdk(jvms)


def test_a_runtime_without_compiler_is_enough_for_spark(jvms: Path) -> None:
    java(jvms / "a-25", 25)
    runtime = java(jvms / "b-17", 17, javac=False)
    assert find_java(jvms) == Java(runtime, 17)
    shutil.rmtree(runtime)
    expected = f"Java 17 or 21 for Spark, and found Java 25 in {jvms}/a-25: sudo apt install openjdk-17-jre-headless"
    with pytest.raises(SetupError, match=re.escape(expected)):
        find_java(jvms)


def test_a_java_with_a_release_file_is_not_started(jvms: Path, tmp_path: Path) -> None:
    home = jvms / "a-21"
    script(home / "bin" / "java", f"touch {tmp_path}/started")
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.4"\n')
    (tmp_path / "link").symlink_to(home / "bin" / "java")
    assert inspect(tmp_path / "link") == Java(home, 21)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("release", ["", 'JAVA_VERSION="unknown"'])
def test_a_java_with_another_release_file_is_asked(jvms: Path, release: str) -> None:
    home = java(jvms / "a-17", 17)
    (home / "release").write_text(release)
    assert inspect(home / "bin" / "java") == Java(home, 17)


def test_every_spark_of_the_environment_runs_on_the_java_that_was_found(tmp_path: Path) -> None:
    write_spark_env(Java(Path("/opt/jdk 17"), 17), tmp_path)
    show = f'. "{tmp_path}/conf/spark-env.sh"; echo "$JAVA_HOME"'
    shown = subprocess.run(["/bin/sh", "-c", show], env={"JAVA_HOME": "/opt/25"}, capture_output=True, check=True)
    assert shown.stdout == b"/opt/jdk 17\n"


# --- Log store --------------------------------------------------------------------------------------------------------


@pytest.fixture
def log_store(tmp_path: Path) -> LogStoreJar:
    for folder in ("jars", "blizzard/setup", "infra/logstore"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "blizzard" / "setup" / "jars.lock").touch()
    (tmp_path / "infra" / "logstore" / "Store.java").write_text("class Store {}")
    return LogStoreJar(tmp_path)


@pytest.fixture
def jdk(tmp_path: Path) -> Java:
    """Its compiler copies the last source into the folder of classes."""
    folder = 'while [ "$1" != -d ]; do shift; done; classes=$2; for source; do :; done'
    script(tmp_path / "jdk" / "bin" / "javac", folder, 'cp "$source" "$classes/Store.class"')
    return Java(tmp_path / "jdk", 17)


def test_the_log_store_is_compiled_once_until_its_source_changes(
    log_store: LogStoreJar, jdk: Java, tmp_path: Path
) -> None:
    assert not log_store.is_current()
    log_store.make(jdk, tmp_path)
    assert log_store.is_current()
    (tmp_path / "infra" / "logstore" / "Store.java").write_text("class Store { int changed; }")
    assert not log_store.is_current()
    log_store.make(jdk, tmp_path)
    with zipfile.ZipFile(log_store.file) as jar:
        assert b"changed" in jar.read("Store.class")


def test_the_same_sources_give_the_same_jar(log_store: LogStoreJar, jdk: Java, tmp_path: Path) -> None:
    log_store.make(jdk, tmp_path)
    first = log_store.file.read_bytes()
    log_store.file.unlink()
    log_store.make(jdk, tmp_path)
    assert log_store.file.read_bytes() == first


def test_a_truncated_log_store_jar_is_made_again(log_store: LogStoreJar, jdk: Java, tmp_path: Path) -> None:
    log_store.make(jdk, tmp_path)
    log_store.file.write_bytes(log_store.file.read_bytes()[:50])
    assert not log_store.is_current()


def test_a_compile_error_is_shown_with_the_compilers_output(log_store: LogStoreJar, tmp_path: Path) -> None:
    script(tmp_path / "jdk" / "bin" / "javac", "echo 'Store.java:1: error: expected ;' >&2; exit 1")
    with pytest.raises(SetupError, match=r"Store\.java:1: error"):
        log_store.make(Java(tmp_path / "jdk", 17), tmp_path)
    assert not log_store.is_current()


# --- Archive of classes -----------------------------------------------------------------------------------------------

LOADS = 'for option in $SPARK_SUBMIT_OPTS; do case $option in *AtExit=*) echo classes > "${option#*=}" ;; esac; done'
"""Stands in for a job in a JVM that archives its classes."""


@pytest.fixture
def archive(log_store: LogStoreJar, jdk: Java, tmp_path: Path) -> ClassArchive:
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "infra" / "local" / "jobs").mkdir(parents=True)
    for name in ("load_classes.py", "emr_image.py"):
        (tmp_path / "infra" / "local" / "jobs" / name).touch()
    log_store.make(jdk, tmp_path)
    return ClassArchive(tmp_path)


def test_the_classes_are_archived_once_until_jars_or_java_change(
    archive: ClassArchive, log_store: LogStoreJar, jdk: Java, tmp_path: Path
) -> None:
    assert not archive.is_current(jdk, log_store.file)
    archive.make(jdk, log_store.file, script(tmp_path / "python", LOADS))
    assert archive.is_current(jdk, log_store.file)
    assert archive.file.read_text() == "classes\n"
    assert not archive.is_current(Java(jdk.home, 21), log_store.file)
    (tmp_path / "blizzard" / "setup" / "jars.lock").write_text("another")
    assert not archive.is_current(jdk, log_store.file)


def test_job_runs_of_the_local_aws_have_an_archive_of_their_own(
    archive: ClassArchive, log_store: LogStoreJar, jdk: Java, tmp_path: Path
) -> None:
    runs = ClassArchive(tmp_path, RUNS)
    archive.make(jdk, log_store.file, script(tmp_path / "python", LOADS))
    assert (runs.is_current(jdk, log_store.file), runs.java_options()) == (False, [])
    runs.make(jdk, log_store.file, script(tmp_path / "python", 'echo "$@" > asked', LOADS))
    assert (tmp_path / "asked").read_text().split()[-1] == "--as-a-run"
    assert archive.is_current(jdk, log_store.file)
    assert runs.is_current(jdk, log_store.file)
    assert runs.java_options()[0] == f"-XX:SharedArchiveFile={runs.file}"
    assert runs.file != archive.file


@pytest.mark.parametrize(
    ("lines", "reason"), [(["exit 0"], "ended without writing"), (["echo no JVM", "exit 1"], "no JVM")]
)
def test_a_failed_archive_is_reported_and_not_used(
    archive: ClassArchive, log_store: LogStoreJar, jdk: Java, tmp_path: Path, lines: list[str], reason: str
) -> None:
    archive.make(jdk, log_store.file, script(tmp_path / "python", LOADS))
    with pytest.raises(SetupError, match=reason):
        archive.make(jdk, log_store.file, script(tmp_path / "other", *lines))
    assert not archive.is_current(jdk, log_store.file)
    assert not archive.file.exists()


def test_the_archive_is_used_unless_the_user_has_spark_settings(
    archive: ClassArchive, log_store: LogStoreJar, jdk: Java, tmp_path: Path
) -> None:
    spark = tmp_path / "pyspark"
    spark.mkdir()
    write_spark_env(jdk, spark, archive.settings())

    def options() -> str:
        show = f'. "{spark}/conf/spark-env.sh"; echo "$SPARK_CONF_DIR|$SPARK_SUBMIT_OPTS"'
        environ = {"SPARK_CONF_DIR": f"{spark}/conf", "SPARK_SUBMIT_OPTS": "-Dmine=1", "PATH": "/usr/bin:/bin"}
        shown = subprocess.run(["/bin/bash", "-c", show], env=environ, capture_output=True, check=True, text=True)
        return shown.stdout.strip()

    without = f"{spark}/conf|-Dmine=1"
    assert options() == without
    archive.make(jdk, log_store.file, script(tmp_path / "python", LOADS))
    assert options().startswith(f"{archive.empty_conf}|-Dmine=1 -XX:SharedArchiveFile={archive.file} ")
    (spark / "conf" / "spark-defaults.conf").touch()
    assert options() == without
