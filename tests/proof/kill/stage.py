"""What the tables of a campaign share: the fork server, S3's stand-in, and one JVM, which dies and is started
again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.local.processes.server_process import LocalAws, local_aws
from tests.proof.kill.fork_server import ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.places import LocalPlace, S3Place


class Stage:
    """The same JVM works on local files and on S3."""

    def __init__(self, folder: Path, fork_server: ForkServer, aws: LocalAws) -> None:
        self.fork_server = fork_server
        self.trap = folder / "trap"
        self.jvms = 0
        """How many there were so far."""
        self._folder = folder
        self._aws = aws
        self._buckets = 0
        self._jvm: Jvm | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """With which S3's stand-in is reached."""
        return self._aws.environment()

    def jvm(self) -> Jvm:
        """The one that runs, or a new one."""
        if self._jvm is None:
            environment, endpoint = self._aws.environment(), self._aws.endpoint
            self._jvm = Jvm(self._folder / "jvm", environment=environment, s3_endpoint=endpoint, trap=self.trap)
            self.jvms += 1
        return self._jvm

    def kill_jvm(self) -> None:
        """If there is one."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None

    def local(self, folder: Path) -> LocalPlace:
        folder.mkdir()
        return LocalPlace(folder)

    def s3(self) -> S3Place:
        """A bucket of its own."""
        self._buckets += 1
        return S3Place.made(self._aws, f"kill-{self._buckets}")


@contextmanager
def stage(folder: Path, modules: Sequence[str] = ("tests.proof.kill.job",)) -> Iterator[Stage]:
    """Nobody on it outlives the block. `modules`: what the fork server imports."""
    folder.mkdir(parents=True, exist_ok=True)
    with ForkServer(folder / "processes", modules) as fork_server, local_aws() as aws:
        made = Stage(folder, fork_server, aws)
        try:
            yield made
        finally:
            made.kill_jvm()
