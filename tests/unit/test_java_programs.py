"""Java programs for tests: which jars, from where, and how often."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.errors import ConfigError, SetupError
from blizzard.setup.jar_lock import read_lock
from infra.tools import __main__ as tools
from infra.tools.java_programs import JAVA_PROGRAMS, JavaProgram, JavaTools
from tests.unit.maven import Maven, maven


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maven]:
    with maven() as served:
        monkeypatch.setenv("BLIZZARD_MAVEN_REPOSITORY", served.url)
        yield served


@pytest.fixture
def program(tmp_path: Path, repository: Maven) -> JavaProgram:
    repository.lock(tmp_path / "some.lock", first=b"1", second=b"2")
    return JavaProgram("some", ("org.test:first:1",), tmp_path / "some.lock")


@pytest.mark.parametrize("name", JAVA_PROGRAMS)
def test_the_lock_has_the_packages_of_the_program(name: str) -> None:
    program = JAVA_PROGRAMS[name]
    assert {*program.packages} <= {jar.coordinate for jar in read_lock(program.lock.read_text())}


def test_jars_are_downloaded_once(tmp_path: Path, repository: Maven, program: JavaProgram) -> None:
    folder = JavaTools(tmp_path).jars(program)
    assert folder == tmp_path / ".cache" / "tools" / "some"
    found = {file.name: file.read_bytes() for file in folder.glob("*.jar")}
    assert found == {"org.test_first-1.jar": b"1", "org.test_second-1.jar": b"2"}
    JavaTools(tmp_path).jars(program)
    assert {*repository.asked.values()} == {1}


def test_a_changed_lock_replaces_the_jars(tmp_path: Path, repository: Maven, program: JavaProgram) -> None:
    JavaTools(tmp_path).jars(program)
    repository.lock(program.lock, third=b"3")
    assert [file.name for file in JavaTools(tmp_path).jars(program).glob("*.jar")] == ["org.test_third-1.jar"]


def test_a_jar_with_another_hash_is_refused(tmp_path: Path, repository: Maven, program: JavaProgram) -> None:
    repository.content[read_lock(program.lock.read_text())[1].path] = b"another"
    with pytest.raises(SetupError, match=r"second-1\.jar: expected sha256"):
        JavaTools(tmp_path).jars(program)


def test_what_is_no_repository_is_refused(
    tmp_path: Path, program: JavaProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLIZZARD_MAVEN_REPOSITORY", "nowhere")
    with pytest.raises(ConfigError, match="Maven repository: expected a URL"):
        JavaTools(tmp_path).jars(program)


def test_prebuild_fails_where_jars_cannot_be_had(
    tmp_path: Path,
    repository: Maven,
    program: JavaProgram,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tools, "CHECKOUT", tmp_path)
    monkeypatch.setitem(JAVA_PROGRAMS, "some", program)
    assert tools.main(["--prebuild", "some"]) == 0
    repository.lock(program.lock, third=b"3")
    repository.content.clear()
    assert tools.main(["--prebuild", "some"]) == 2
    assert "tools: cannot download org.test:third:1" in capsys.readouterr().err
