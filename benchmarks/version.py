"""Which version of this project was measured, as git knows it."""

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
    """`changed`: a file that git tracks, documents aside, was not as the commit has it."""

    commit: str
    changed: bool

    def __str__(self) -> str:
        return self.commit[:SHORT] + (" with changes" if self.changed else "")


def version(root: Path = ROOT) -> Version | None:
    """Of the checkout in this folder; None without git, and for files that were copied without their history."""
    found = _git(root, "rev-parse", "--show-toplevel", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *_NOT_MEASURED)
    if found is None or changes is None:
        return None
    top, commit = found
    return Version(commit, bool(changes)) if Path(top).resolve() == root.resolve() else None


def changed_since(commit: str, paths: Sequence[str], root: Path = ROOT) -> list[str] | None:
    """Those of these paths (of git's pathspecs) that HEAD has otherwise; None if git does not know that commit."""
    return _git(root, "diff", "--name-only", "--no-renames", commit, "HEAD", "--", *paths)


def _git(root: Path, *words: str) -> list[str] | None:
    """The lines that it says; None when it fails, or is not there."""
    program = shutil.which("git")
    if program is None:
        return None
    # A hook that runs all this has variables of git's own, which may be about another repository.
    environment = {name: value for name, value in variables().items() if not name.startswith("GIT_")}
    command = [program, "--no-optional-locks", "-C", str(root), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None
