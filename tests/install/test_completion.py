"""Shells complete commands, options and values, as users see it in an installed Blizzard."""

import shlex
import shutil

import pytest

from blizzard.cli import COMMANDS
from tests.install.installed import Installation

ENGINES = ["auto", "local", "spark"]


def completed_by_bash(installation: Installation, *words: str) -> list[str]:
    """What bash offers for the last word, after it has read the script that `--show-completion` prints."""
    bash = shutil.which("bash")
    assert bash is not None
    line = " ".join(map(shlex.quote, ("blizzard", *words)))
    script = (
        'eval "$(blizzard --show-completion)"\n'
        "[[ $(complete -p blizzard) =~ -F\\ ([a-z_]+) ]] || exit 3\n"
        f"COMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
        "${BASH_REMATCH[1]} blizzard\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = installation.run(bash, "--norc", "-c", script, PATH=f"{installation.folder}/bin:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], [*COMMANDS]),
        (["s"], [name for name in COMMANDS if name.startswith("s")]),
        (["--ver"], ["--version"]),
        (["setup", "--"], ["--folder", "--repository", "--json", "--help"]),
        (["run", "pipelines.yaml", "--on"], ["--once"]),
        (["run", "--engine", ""], ENGINES),
        (["run", "--json", "--engine", "lo"], ["local"]),
    ],
    ids=str,
)
def test_bash_completes(installation: Installation, words: list[str], expected: list[str]) -> None:
    assert completed_by_bash(installation, *words) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize(("line", "expected"), [("blizzard st", "status"), ("blizzard run --on", "--once")])
def test_other_shells_complete(installation: Installation, shell: str, line: str, expected: str) -> None:
    """By the variables that the scripts for these shells set."""
    asked = {"_BLIZZARD_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    done = installation.blizzard(**asked, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert done.stderr == ""
    assert expected in done.stdout
    assert "--pipeline" not in done.stdout
