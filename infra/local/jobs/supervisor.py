"""Runs a command in its own process group, and kills the group when the command or the parent process ends.

`python -I -S supervisor.py STDOUT STDERR COMMAND…`. A line on stdin, `kill` or `term`, sends that signal to the group.
The exit status is the command's; 256 - N if signal N ended it.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}


def main() -> int:
    out, err, *command = sys.argv[1:]
    with Path(out).open("ab") as stdout, Path(err).open("ab") as stderr:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )

    def forward_signals() -> None:
        for line in sys.stdin:
            send(SIGNALS[line.strip()])
        send(signal.SIGKILL)

    def send(number: signal.Signals) -> None:
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return

    threading.Thread(target=forward_signals, daemon=True).start()
    status = child.wait()
    send(signal.SIGKILL)  # processes of the group that outlived the command
    return status % 256


if __name__ == "__main__":
    os._exit(main())
