"""The local AWS: moto's server with our patches, on 127.0.0.1. Ends with its parent process.

`python -m infra.local.moto.server --port 0` prints one line, {"endpoint": "http://127.0.0.1:NNNN"}, once it listens.
"""

import argparse
import json
import os
import signal
import threading
import time

from infra.local.moto.patches import install

PARENT_CHECK_SECS = 0.5


def serve(port: int, parent_pid: int) -> None:
    """Serve moto, as it is patched in this process, until SIGTERM, SIGINT or the end of the parent."""
    # Imported after `install` has checked the version: these modules use names that another version of moto may lack.
    from infra.local.moto.http_server import start
    from infra.local.moto.patches import cloudformation

    # Without cleanup: everything is in memory, and moto's own shutdown takes half a second.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = start(port)
    cloudformation.install(lambda: f"http://127.0.0.1:{server.port}")
    print(json.dumps({"endpoint": f"http://127.0.0.1:{server.port}"}), flush=True)
    threading.Thread(target=_exit_with_parent, args=(parent_pid,), daemon=True).start()
    server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free port (default: 0)")
    parser.add_argument(
        "--parent-pid",
        type=int,
        default=os.getppid(),
        help="exit when this process is no longer the parent (default: the parent process)",
    )
    arguments = parser.parse_args()
    install()
    serve(arguments.port, arguments.parent_pid)


def _exit_with_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_CHECK_SECS)
    os._exit(0)


if __name__ == "__main__":
    main()
