"""`guard PARENT_PID COMMAND …` runs a command, and kills it once the parent has ended, however that came about.

It leads the process group of the command. SIGTERM to the group ends the command, and the guard with it."""

import os
import select
import signal
import subprocess
import sys


def main(parent_pid: int, command: list[str]) -> int:
    # With a handler, not SIG_IGN, which the command would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    parent = os.pidfd_open(parent_pid)
    if os.getppid() != parent_pid:  # it ended before the line above, and its id may be another process's
        return 1
    process = subprocess.Popen(command)
    waiting = select.poll()
    waiting.register(parent, select.POLLIN)
    waiting.register(os.pidfd_open(process.pid), select.POLLIN)
    if any(descriptor == parent for descriptor, _ in waiting.poll()):
        process.kill()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
