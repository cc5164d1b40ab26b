"""Go programs of the tests: built once, with the expected hash; what is missing is named."""

from pathlib import Path

import pytest

from blizzard.errors import SetupError
from infra.tools.go_programs import GoProgram, GoTools, GoUnavailable

WANTED = GoProgram("gateway", "example.com/gateway", "cmd/gateway", "v1.2.3", "h1:right=", "1.25")
# Stands in for Go: "builds" a program, and says later from which module it was built.
GO = """#!/bin/sh
case "$1" in
install) echo "$2" >> "$0.log"; mkdir -p "$GOBIN" "$GOMODCACHE/example.com"; echo program > "$GOBIN/gateway" ;;
version) printf '%s: go1.26\\n\\tmod\\texample.com/gateway\\tv1.2.3\\t{sum}\\n' "$3" ;;
esac
"""
WITHOUT_NETWORK = '#!/bin/sh\necho "go: example.com/gateway: dial tcp: lookup proxy: no such host" >&2\nexit 1\n'


class Machine:
    """A checkout, and a folder of programs that come first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.root = folder / "bin", folder / "checkout"
        self.bin.mkdir()

    def install_go(self, script: str) -> None:
        go = self.bin / "go"
        go.write_text(script)
        go.chmod(0o755)

    @property
    def builds(self) -> list[str]:
        return (self.bin / "go.log").read_text().split()

    @property
    def files(self) -> list[str]:
        folder = self.root / ".cache" / "tools" / "gateway"
        return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    for name in ("sh", "nice", "mkdir"):
        found = next(folder for folder in ("/usr/bin", "/bin") if Path(folder, name).exists())
        (made.bin / name).symlink_to(Path(found, name))
    monkeypatch.setenv("PATH", str(made.bin))
    return made


def test_a_program_is_built_once_for_each_version_and_only_it_is_kept(machine: Machine) -> None:
    machine.install_go(GO.replace("{sum}", WANTED.sum))
    tools = GoTools(machine.root)
    assert [tools.program(WANTED) for _ in range(2)] == [machine.root / ".cache/tools/gateway/bin/gateway"] * 2
    assert machine.builds == ["example.com/gateway/cmd/gateway@v1.2.3"]
    assert machine.files == [".made", "bin/gateway"]
    older = tools.root / ".cache/tools/gateway/.made"
    older.write_text("v1.2.2 h1:older=")
    tools.program(WANTED)
    assert len(machine.builds) == 2


def test_without_go_the_error_says_what_to_install(machine: Machine) -> None:
    with pytest.raises(GoUnavailable, match=r"gateway v1\.2\.3 is built by Go, 1\.25 or newer.*golang-go"):
        GoTools(machine.root).program(WANTED)


def test_without_a_network_the_error_has_gos_own_words(machine: Machine) -> None:
    machine.install_go(WITHOUT_NETWORK)
    with pytest.raises(GoUnavailable, match=r"no such host\n.*Go 1\.25 or newer and a network: GOPROXY"):
        GoTools(machine.root).program(WANTED)
    assert machine.files == []


def test_a_module_with_another_hash_is_not_kept_and_not_excused(machine: Machine) -> None:
    machine.install_go(GO.replace("{sum}", "h1:wrong="))
    for _ in range(2):
        with pytest.raises(SetupError, match=r"expected .* h1:right=, found .* h1:wrong=") as raised:
            GoTools(machine.root).program(WANTED)
        assert not isinstance(raised.value, GoUnavailable)
        assert machine.files == []
