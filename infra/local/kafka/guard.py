"""`guard PARENT_PID COMMAND …` runs a command, and kills it once the parent has ended, however that came about.

SIGTERM is passed on to the command, SIGUSR1 kills it. The guard ends only after the command, so that whoever waited for
the guard may use the command's files and ports."""

import os
import select
import signal
import subprocess
import sys

KILL = signal.SIGUSR1


def main(parent_pid: int, command: list[str]) -> int:
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: object = None) -> None:
        if process is None:
            early.append(number)
        else:
            process.send_signal(signal.SIGKILL if number == KILL else number)

    # With a handler, not SIG_IGN, which the command would inherit.
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(KILL, pass_on)
    parent = os.pidfd_open(parent_pid)
    if os.getppid() != parent_pid:  # it ended before the line above, and its id may be another process's
        return 1
    process = subprocess.Popen(command)
    for number in early:
        pass_on(number)
    waiting = select.poll()
    waiting.register(parent, select.POLLIN)
    waiting.register(os.pidfd_open(process.pid), select.POLLIN)
    if any(descriptor == parent for descriptor, _ in waiting.poll()):
        process.kill()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
