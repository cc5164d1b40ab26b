"""Runs a command in a process group of its own, which ends with it or with its starter, however that ends.

`python -I -S supervisor.py STDOUT STDERR COMMAND…`; a line on stdin, `kill` or `term`, is that signal to the group.
Its exit status is the command's, -N (as 256 - N) where signal N ended it.
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

    def obey() -> None:
        for line in sys.stdin:
            send(SIGNALS[line.strip()])
        send(signal.SIGKILL)

    def send(number: signal.Signals) -> None:
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return

    threading.Thread(target=obey, daemon=True).start()
    status = child.wait()
    send(signal.SIGKILL)  # what the command left behind
    return status % 256


if __name__ == "__main__":
    os._exit(main())
