"""Where a run looks for the jars and for Java."""

from pathlib import Path

import pytest

from blizzard.environment import variables
from blizzard.errors import ConfigError, SetupError
from blizzard.setup import places
from blizzard.setup.jar_folder import STAMP, UNFINISHED
from blizzard.setup.places import cache_folder, find_jars, log_store
from spark_job.session import with_java_and_jars
from tests.unit.shell_scripts import script


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "CHECKOUT", tmp_path / "checkout")
    return tmp_path / "checkout"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def put_jar(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "delta.jar").touch()
    return folder


def test_the_checkouts_jars_come_before_the_cache(checkout: Path, cache: dict[str, str]) -> None:
    assert find_jars(cache) == checkout / "jars", "where make setup will put them"
    put_jar(cache_folder(cache))
    assert find_jars(cache) == cache_folder(cache)
    put_jar(checkout / "jars")
    assert find_jars(cache) == checkout / "jars"


def test_the_cache_is_used_when_the_checkouts_set_up_was_interrupted(checkout: Path, cache: dict[str, str]) -> None:
    (put_jar(checkout / "jars") / STAMP).write_text(UNFINISHED)
    assert find_jars(cache) == checkout / "jars"
    put_jar(cache_folder(cache))
    assert find_jars(cache) == cache_folder(cache)


def test_an_installed_blizzard_looks_into_the_cache(cache: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "CHECKOUT", None)
    assert find_jars(cache) == cache_folder(cache)


@pytest.mark.usefixtures("checkout")
def test_a_folder_that_was_named_comes_first(cache: dict[str, str], tmp_path: Path) -> None:
    assert find_jars({**cache, "BLIZZARD_JARS": str(tmp_path)}) == tmp_path
    assert find_jars({**cache, "BLIZZARD_JARS": ""}) != tmp_path


def test_another_log_store_gets_another_cache_folder(checkout: Path, cache: dict[str, str]) -> None:
    without = cache_folder(cache)
    (put_jar(checkout / "jars") / "blizzard-logstore.jar").write_bytes(b"1")
    first = cache_folder(cache)
    (checkout / "jars" / "blizzard-logstore.jar").write_bytes(b"2")
    assert len({without, first, cache_folder(cache)}) == 3


@pytest.mark.parametrize("given", [{}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}], ids=str)
def test_the_default_cache_is_in_the_home_folder(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder(given).parent == tmp_path / ".cache" / "blizzard"


def test_without_a_home_folder_the_variable_to_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 1 << 30)
    with pytest.raises(ConfigError, match="set HOME, XDG_CACHE_HOME or BLIZZARD_JARS"):
        cache_folder({})


def test_a_missing_log_store_is_named_with_what_makes_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="run `make setup` first"):
        log_store()
    monkeypatch.setattr(places, "CHECKOUT", None)
    with pytest.raises(SetupError, match="install a wheel that `make wheel` built"):
        log_store()


def test_spark_starts_with_the_java_that_it_supports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    script(home / "bin" / "java")
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("SPARK_LOCAL_IP", "")
    monkeypatch.delenv("SPARK_LOCAL_IP")
    seen = []

    def session() -> object:
        seen.append({name: variables().get(name) for name in ("JAVA_HOME", "SPARK_LOCAL_IP")})
        return seen

    start = with_java_and_jars(session, put_jar(tmp_path / "jars"))  # type: ignore[arg-type]
    assert start() is start()
    assert seen == [{"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}]


def test_without_jars_spark_is_not_started(tmp_path: Path) -> None:
    def session() -> object:
        raise AssertionError("started")

    start = with_java_and_jars(session, tmp_path / "none")  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=rf"Delta's jars, and found no {tmp_path}/none; run `make setup`"):
        start()
