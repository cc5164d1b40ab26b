"""A Maven repository on this machine, with jars that a test makes, and a lock of them."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from blizzard.setup.jar_lock import Jar, write_lock


@dataclass
class Maven:
    url: str
    content: dict[str, bytes] = field(default_factory=dict)
    """By path in the repository."""
    failures: dict[str, list[int]] = field(default_factory=dict)
    """By path: what to answer first. 0 cuts the answer off."""
    asked: Counter[str] = field(default_factory=Counter)

    def lock(self, file: Path, **jars: bytes) -> list[Jar]:
        """Serve these jars, and write a lock of them."""
        locked = []
        for name, content in jars.items():
            jar = Jar(f"org.test_{name}-1.jar", sha256(content).hexdigest(), f"org.test:{name}:1")
            self.content[jar.path] = content
            locked.append(jar)
        file.write_text(write_lock(locked))
        return locked


@contextmanager
def maven() -> Iterator[Maven]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/maven2/")
            repository.asked[path] += 1
            status = repository.failures[path].pop(0) if repository.failures.get(path) else 200
            content = repository.content.get(path)
            if content is None or status > 200:
                self.send_error(status if status > 200 else 404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content if status else content[:1])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    repository = Maven(f"http://127.0.0.1:{server.server_port}/maven2")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield repository
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
