"""The version of this project that was measured, from git."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import variables

ROOT = Path(__file__).parents[1]
SHORT = 12
_NOT_MEASURED = (":(exclude)docs", ":(exclude)*.md")


@dataclass(frozen=True, slots=True)
class Version:
    """`changed`: a tracked file other than a document had uncommitted changes."""

    commit: str
    changed: bool

    def __str__(self) -> str:
        return self.commit[:SHORT] + (" with changes" if self.changed else "")


def version(root: Path = ROOT) -> Version | None:
    """Version of the checkout in `root`; None without git, or if `root` is not the top folder of a checkout."""
    found = _git(root, "rev-parse", "--show-toplevel", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_NOT_MEASURED)
    if found is None or changes is None:
        return None
    top, commit = found
    return Version(commit, bool(changes)) if Path(top).resolve() == root.resolve() else None


def changed_since(commit: str, paths: Sequence[str], root: Path = ROOT) -> list[str] | None:
    """Files matching `paths` (git pathspecs) that differ between `commit` and HEAD; None if the commit is unknown."""
    return _git(root, "diff", "--name-only", "--no-renames", commit, "HEAD", "--", *paths)


def _git(root: Path, *words: str) -> list[str] | None:
    """Lines of git's output; None if git fails or is not installed."""
    program = shutil.which("git")
    if program is None:
        return None
    # Inside a git hook, GIT_* variables may point to another repository.
    environment = {name: value for name, value in variables().items() if not name.startswith("GIT_")}
    command = [program, "--no-optional-locks", "-C", str(root), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None
