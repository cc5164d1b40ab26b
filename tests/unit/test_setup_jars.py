"""The folder of jars: downloaded, checked, continued after an interruption."""

import multiprocessing
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from blizzard.errors import ConfigError, SetupError
from blizzard.setup import download
from blizzard.setup.download import checked_repository
from blizzard.setup.jar_folder import LOG_STORE, JarFolder, problem_of
from blizzard.setup.jar_lock import LOCK, Jar, read_lock
from blizzard.setup.java import Java
from infra.setup.jars import AWS_SDK, EXCLUDES, PACKAGES, resolve, shipped_with_spark
from infra.setup.venv import Venv
from tests.unit.maven import Maven, maven
from tests.unit.shell_scripts import script


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maven]:
    monkeypatch.setattr(download, "FIRST_PAUSE_SECS", 0.01)
    with maven() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> JarFolder:
    return JarFolder(tmp_path / "new" / "jars", tmp_path / "jars.lock")


def names(folder: JarFolder) -> list[str]:
    return sorted(file.name for file in folder.folder.iterdir() if not file.name.startswith("."))


def test_the_folder_contains_exactly_the_locked_jars(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta", s3=b"s3")
    assert not folder.is_complete()
    assert folder.fill(repository.url) == 2
    assert folder.is_complete()
    assert names(folder) == ["org.test_delta-1.jar", "org.test_s3-1.jar"]
    assert (folder.folder / "org.test_delta-1.jar").read_bytes() == b"delta"
    assert problem_of(folder.folder) is None


def test_a_second_time_nothing_is_downloaded(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta")
    folder.fill(repository.url)
    assert folder.fill(repository.url) == 0
    assert repository.asked.total() == 1


def test_each_jar_is_reported_when_it_arrives(repository: Maven, folder: JarFolder) -> None:
    jars = repository.lock(folder.lock, delta=b"delta", s3=b"s3")
    seen = list[Jar]()
    folder.fill(repository.url, arrived=seen.append)
    assert sorted(seen, key=lambda jar: jar.file) == jars


def test_a_jar_with_another_hash_is_named_and_not_kept(repository: Maven, folder: JarFolder) -> None:
    jar, _ = repository.lock(folder.lock, delta=b"delta", s3=b"s3")
    repository.content[jar.path] = b"tampered"
    with pytest.raises(
        SetupError, match=rf"delta-1\.jar: expected sha256 {jar.sha256}, found [0-9a-f]{{64}}; the file"
    ):
        folder.fill(repository.url)
    assert "org.test_delta-1.jar" not in names(folder)
    assert not folder.is_complete()
    assert problem_of(folder.folder) == f"{folder.folder}, whose set-up was interrupted"


def test_what_was_downloaded_before_a_failure_is_not_downloaded_again(repository: Maven, folder: JarFolder) -> None:
    good, bad = repository.lock(folder.lock, delta=b"delta", s3=b"s3")
    content = repository.content.pop(bad.path)
    with pytest.raises(SetupError, match=r"cannot download org\.test:s3:1 from .*: the repository answered 404"):
        folder.fill(repository.url)
    (folder.folder / f"{bad.file}.partial").write_bytes(b"half")
    repository.content[bad.path] = content
    folder.fill(repository.url)
    assert names(folder) == [good.file, bad.file]
    assert repository.asked[good.path] == 1


def test_a_damaged_jar_is_downloaded_again(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta", s3=b"s3")
    folder.fill(repository.url)
    (folder.folder / "org.test_delta-1.jar").write_bytes(b"half")
    assert folder.fill(repository.url) == 1
    assert (folder.folder / "org.test_delta-1.jar").read_bytes() == b"delta"


def test_a_changed_lock_replaces_the_jars_of_the_earlier_one(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta", old=b"old")
    folder.fill(repository.url)
    (folder.folder / LOG_STORE).write_bytes(b"ours")
    repository.lock(folder.lock, delta=b"delta", new=b"new")
    assert not folder.is_complete()
    assert folder.fill(repository.url) == 1
    assert names(folder) == [LOG_STORE, "org.test_delta-1.jar", "org.test_new-1.jar"]


def test_existing_jars_stay_when_new_ones_cannot_be_had(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, old=b"old")
    folder.fill(repository.url)
    repository.lock(folder.lock, new=b"new")
    repository.content.clear()
    with pytest.raises(SetupError):
        folder.fill(repository.url)
    assert names(folder) == ["org.test_old-1.jar"]


def test_the_log_store_is_added(repository: Maven, folder: JarFolder, tmp_path: Path) -> None:
    repository.lock(folder.lock, delta=b"delta")
    (tmp_path / "compiled.jar").write_bytes(b"classes")
    folder.fill(repository.url, log_store=tmp_path / "compiled.jar")
    assert (folder.folder / LOG_STORE).read_bytes() == b"classes"


def test_a_folder_with_other_jars_is_refused_and_left_alone(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta")
    folder.folder.mkdir(parents=True)
    (folder.folder / "mine.jar").write_bytes(b"mine")
    with pytest.raises(ConfigError, match=r"found others: mine\.jar\. .* choose another folder"):
        folder.fill(repository.url)
    assert names(folder) == ["mine.jar"]


@pytest.mark.parametrize("failures", [[503, 429], [0, 500], [0, 0, 0]], ids=str)
def test_a_failure_that_passes_is_not_noticed(repository: Maven, folder: JarFolder, failures: list[int]) -> None:
    (jar,) = repository.lock(folder.lock, delta=b"delta")
    repository.failures[jar.path] = list(failures)
    folder.fill(repository.url)
    assert folder.is_complete()
    assert repository.asked[jar.path] == len(failures) + 1


def test_a_repository_that_keeps_failing_is_given_up(repository: Maven, folder: JarFolder) -> None:
    (jar,) = repository.lock(folder.lock, delta=b"delta")
    repository.failures[jar.path] = [500] * 9
    with pytest.raises(SetupError, match="the repository answered 500"):
        folder.fill(repository.url)
    assert repository.asked[jar.path] == download.ATTEMPTS


def test_without_a_network_the_sentence_says_what_to_do(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, delta=b"delta")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(
            SetupError, match=r"Connection refused.*HTTPS_PROXY names a proxy, BLIZZARD_MAVEN_REPOSITORY"
        ):
            folder.fill(url)


def test_jars_of_a_folder_on_disk(repository: Maven, folder: JarFolder, tmp_path: Path) -> None:
    """For machines without a network."""
    for jar in repository.lock(folder.lock, delta=b"delta"):
        (tmp_path / "disk" / jar.path).parent.mkdir(parents=True)
        (tmp_path / "disk" / jar.path).write_bytes(b"delta")
    folder.fill((tmp_path / "disk").as_uri())
    assert folder.is_complete()
    repository.lock(folder.lock, other=b"other")
    with pytest.raises(SetupError, match="No such file or directory"):
        folder.fill((tmp_path / "disk").as_uri())


@pytest.mark.parametrize("url", ["repo.example/maven2", "ftp://repo.example/maven2", ""])
def test_what_is_no_url_of_a_repository_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected a URL with http, https or file"):
        checked_repository(url)


def fill(folder: Path, lock: Path, url: str, downloaded: "multiprocessing.Queue[int]") -> None:
    downloaded.put(JarFolder(folder, lock).fill(url))


def test_two_processes_at_once_download_each_jar_once(repository: Maven, folder: JarFolder) -> None:
    repository.lock(folder.lock, **{f"jar{number}": bytes([number]) * 1000 for number in range(20)})
    context = multiprocessing.get_context("spawn")
    downloaded: multiprocessing.Queue[int] = context.Queue()
    arguments = (folder.folder, folder.lock, repository.url, downloaded)
    processes = [context.Process(target=fill, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    assert sorted(downloaded.get(timeout=60) for _ in processes) == [0, 20]
    for process in processes:
        process.join()
    assert folder.is_complete()
    assert repository.asked.total() == 20


def test_what_spark_cannot_use_is_named(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "none") == f"no {tmp_path / 'none'}"
    assert problem_of(tmp_path) == f"no jar in {tmp_path}"
    (tmp_path / "filled-in-another-way.jar").touch()
    assert problem_of(tmp_path) is None


# --- The lock ---------------------------------------------------------------------------------------------------------


def test_the_path_in_a_repository() -> None:
    jar = Jar("", "", "org.apache.hadoop:hadoop-aws:3.4.2")
    assert jar.path == "org/apache/hadoop/hadoop-aws/3.4.2/hadoop-aws-3.4.2.jar"


def test_the_jar_lock_has_all_requested_jars_and_none_that_spark_ships() -> None:
    locked = read_lock(LOCK.read_text())
    assert set(PACKAGES) <= {jar.coordinate for jar in locked}
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    assert shipped_with_spark(locked, Path(spark.origin).parent) == []


def test_a_jar_that_spark_ships_is_recognised_in_any_version(tmp_path: Path) -> None:
    script(tmp_path / "jars" / "jackson-core-2.20.0.jar")
    older, other = (Jar("", "", f"com.fasterxml:{name}:2.13.5") for name in ("jackson-core", "jackson-core-extras"))
    assert shipped_with_spark([older, other], tmp_path) == [older]


def test_exclusions_are_passed_to_ivy(tmp_path: Path) -> None:
    submit = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages" / "pyspark" / "bin" / "spark-submit"
    script(submit, f'echo "$@" > {tmp_path}/asked')
    resolve(Venv(tmp_path), Java(Path("/opt/jdk"), 17), tmp_path / "ivy")
    asked = (tmp_path / "asked").read_text()
    assert f"--packages {','.join(PACKAGES)} --exclude-packages {','.join(EXCLUDES)}" in asked
    assert AWS_SDK in asked


def test_an_unresolved_package_is_shown_with_ivys_words(tmp_path: Path) -> None:
    submit = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages" / "pyspark" / "bin" / "spark-submit"
    script(submit, "echo unresolved dependency >&2", "exit 1")
    with pytest.raises(SetupError, match=r"is it reachable from here(?s:.)*unresolved dependency"):
        resolve(Venv(tmp_path), Java(Path("/opt/jdk"), 17), tmp_path / "ivy")
