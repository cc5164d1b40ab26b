"""What reading a file takes: memory of this process, and of the one that reads ORC for it."""

import io
from dataclasses import dataclass
from pathlib import Path

from spark_job.formats.orc.reader import READER


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes. `orc`: of the process that reads ORC; 0 without one. One that has ended tells nothing; its own limit of
    addresses is all that holds for it."""

    own: int
    orc: int

    def above(self, before: "Memory") -> int:
        """A process that is another one than before began with about as much."""
        return max(0, self.own - before.own) + max(0, self.orc - before.orc)


def reset_peak() -> Memory:
    """The memory now, from which on the peak counts."""
    for process in ("self", *_orc()):
        Path(f"/proc/{process}/clear_refs").write_text("5")
    return peak()


def peak() -> Memory:
    return Memory(_peak("self"), sum(map(_peak, _orc())))


def start_orc(good: bytes) -> None:
    """So that what the process takes to begin is not the file's."""
    READER.open(io.BytesIO(good))


def _orc() -> list[str]:
    process = READER._process
    return [] if process is None or process.poll() is not None else [str(process.pid)]


def _peak(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) << 10
