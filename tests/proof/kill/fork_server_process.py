"""A process that has imported everything and forks another one for each piece of work, which saves the start-up.

`python -m tests.proof.kill.fork_server_process MODULE ...` reads one command a line. It responds to `{"start": {...}}`
with the pid of the new process, and to `{"wait": pid}` with its exit status, or the negative number of the signal that
killed it.
"""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any

_PR_SET_PDEATHSIG = 1
FAILED = 70
"""Exit status after an unexpected exception."""


def main() -> None:
    _end_with_the_parent()
    for module in sys.argv[1:]:
        importlib.import_module(module)
    _say({"ready": os.getpid()})
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            pid = os.fork()
            if pid == 0:
                _live(**command["start"])
            _say({"pid": pid})
        else:
            _, status = os.waitpid(command["wait"], 0)
            _say({"ended": os.waitstatus_to_exitcode(status)})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def _live(call: str, given: dict[str, Any], environment: dict[str, str], group: int, log: str) -> None:
    """`group`: the process group to join; 0: a new one."""
    code = FAILED
    try:
        _end_with_the_parent()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(0, group)
        os.environ.update(environment)
        _redirect(log)
        module, _, name = call.partition(":")
        code = getattr(importlib.import_module(module), name)(**given) or 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else FAILED
    except BaseException:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with_the_parent() -> None:
    """On Linux only; elsewhere nothing happens."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _redirect(log: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)


if __name__ == "__main__":
    main()
