"""A proxy before S3 that holds one request, so that something can happen to whoever sent it."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from benchmarks.standalone_cluster.processes import Daemon, session_members
from tests.fixtures_faulty_s3 import FaultyS3, Handler

HELD_SECS = 300.0
"""At most; a test that fails must not leave threads behind for ever."""


class Phase(StrEnum):
    """Of a batch: which request is held, and who waits for the answer."""

    READ = "read"
    """An executor's GET of a source file."""
    WRITE = "write"
    """An executor's PUT of a data file. The object exists, and nobody has heard of it."""
    COMMIT = "commit"
    """The driver's PUT of a version of the table."""

    def is_reached_by(self, method: str, path: str) -> bool:
        match self:
            case Phase.READ:
                return method == "GET" and "/landing/" in path
            case Phase.WRITE:
                ends = (method == "PUT" and "partNumber=" not in path) or (method == "POST" and "uploadId=" in path)
                return ends and ".parquet" in path and "/_" not in path
            case Phase.COMMIT:
                return method == "PUT" and "/_delta_log/" in path and path.endswith(".json")


@dataclass
class Hold:
    """The first request that `matches`; with `workers` also those for the same object that come from the same worker's
    machine later. `by_executor`: only a request of a worker's machine counts. `sender` is that worker; None: it came
    from elsewhere, or did not come yet."""

    matches: Callable[[str, str], bool]
    carried_out: bool
    workers: Sequence[Daemon]
    by_executor: bool
    for_good: bool = False
    sender: Daemon | None = None
    path: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


class GateHandler(Handler):
    server: "Gate"

    def serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hold = self.server.take(self.command, self.path, self.client_address[1])
        if hold is None:
            self.answer(*self.ask())
            return
        answer = self.ask() if hold.carried_out else None
        hold.reached.set()
        hold.released.wait(HELD_SECS)
        self.answer(*(answer or self.ask()))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815


class Gate(FaultyS3):
    """Passes all requests on but the one to hold."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.RequestHandlerClass = GateHandler
        self._hold: Hold | None = None

    def take(self, method: str, path: str, port: int) -> Hold | None:
        with self._lock:
            hold = self._hold
            if hold is None:
                return None
            if hold.path:
                again = hold.for_good and path == hold.path and sender(port, hold.workers) is hold.sender
                return hold if again else None
            if not hold.matches(method, path):
                return None
            who = sender(port, hold.workers)
            if hold.by_executor and who is None:  # a process of an executor that was killed before
                return None
            hold.path, hold.sender = path, who
            return hold

    @contextmanager
    def holding(self, phase: Phase, workers: Sequence[Daemon], *, for_good: bool = False) -> Iterator[Hold]:
        """The next request of this phase, until the end of the block; `for_good`: also when it is tried again."""
        by_executor = phase is not Phase.COMMIT
        hold = Hold(phase.is_reached_by, phase is Phase.WRITE, workers, by_executor, for_good)
        with self._lock:
            self._hold = hold
        try:
            yield hold
        finally:
            with self._lock:
                self._hold = None
            hold.released.set()


@contextmanager
def gate_before(endpoint: str) -> Iterator[Gate]:
    with Gate(endpoint) as gate:
        threading.Thread(target=gate.serve_forever, args=(0.01,), daemon=True).start()
        yield gate
        gate.shutdown()


def sender(port: int, workers: Iterable[Daemon]) -> Daemon | None:
    """The worker on whose machine the connection with this local port was opened; None: on none."""
    wanted = f":{port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(wanted)}
    return next((worker for worker in workers if sockets & _open(session_members(worker.process.pid))), None)


def _open(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    found.add(str(descriptor.readlink()))
    return found
