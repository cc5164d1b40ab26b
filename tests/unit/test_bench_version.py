"""The version that a result stores."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.run_options import RunOptions
from benchmarks.suite import run
from benchmarks.version import Version, changed_since, version

IDENTITY = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs git in a temporary checkout with one commit of `a.py`, `README.md` and `docs/b.svg`."""
    root = tmp_path / "checkout"
    (root / "docs").mkdir(parents=True)
    for name in ("a.py", "README.md", "docs/b.svg"):
        (root / name).write_text("one\n")
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)

    def say(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *IDENTITY, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Begin")):
        say(*words)
    return say


@needs_git
def test_a_checkout_is_of_its_commit(git: Callable[..., str], tmp_path: Path) -> None:
    found = version(tmp_path / "checkout")
    assert found == Version(git("rev-parse", "HEAD"), changed=False)
    assert str(found) == git("rev-parse", "HEAD")[:12]


@needs_git
@pytest.mark.parametrize("staged", [True, False])
def test_a_file_that_is_not_as_the_commit_has_it_is_told(git: Callable[..., str], tmp_path: Path, staged: bool) -> None:
    (tmp_path / "checkout" / "a.py").write_text("two\n")
    if staged:
        git("add", "a.py")
    found = version(tmp_path / "checkout")
    assert found == Version(git("rev-parse", "HEAD"), changed=True)
    assert str(found).endswith(" with changes")


@needs_git
def test_documents_and_what_git_does_not_know_are_no_change(git: Callable[..., str], tmp_path: Path) -> None:
    for name in ("README.md", "docs/b.svg", "bench.json"):
        (tmp_path / "checkout" / name).write_text("two\n")
    assert version(tmp_path / "checkout") == Version(git("rev-parse", "HEAD"), changed=False)


@needs_git
def test_a_copy_within_another_checkout_has_no_version(git: Callable[..., str], tmp_path: Path) -> None:
    copy = tmp_path / "checkout" / "copy"
    copy.mkdir()
    assert version(copy) is None


@needs_git
def test_a_hook_of_another_repository_does_not_mislead(
    git: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git("rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert version(tmp_path / "checkout") == Version(commit, changed=False)


def test_files_without_their_history_have_no_version(tmp_path: Path) -> None:
    assert version(tmp_path) is None


def test_without_git_there_is_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version() is None


def test_a_result_is_of_the_version_that_was_there_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Version("a" * 40, changed=True)]
    monkeypatch.setattr("benchmarks.suite.version", lambda: found[0])

    def run_module(module: str, *words: object) -> dict[str, float]:
        found[0] = Version("b" * 40, changed=False)
        return {"secs": 0.1, "peak_mb": 50.0, "load_before": 0.5, "others_share": 0.1}

    monkeypatch.setattr("benchmarks.suite.collect.run_module", run_module)
    result = run("collect", RunOptions(0.01, 1, 1, lambda text: None))
    assert result.version == Version("a" * 40, changed=True)


@needs_git
def test_what_a_later_commit_changed_is_told_of_the_paths_that_are_asked_for(
    git: Callable[..., str], tmp_path: Path
) -> None:
    root, first = tmp_path / "checkout", git("rev-parse", "HEAD")
    (root / "a.py").write_text("two\n")
    assert changed_since(first, ["."], root) == []
    git("commit", "-qam", "Go on")
    assert changed_since(first, ["."], root) == ["a.py"]
    assert changed_since(first, [".", ":(exclude)*.py"], root) == []
    assert changed_since("0" * 40, ["."], root) is None
