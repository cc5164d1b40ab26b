"""The request that the current thread serves, for patches of moto code that does not get it as an argument."""

import threading
from typing import Any

_local = threading.local()


def set_current_request(environ: dict[str, Any]) -> None:
    _local.environ = environ


def current_request() -> dict[str, Any]:
    """Its WSGI environment; empty outside a request."""
    environ: dict[str, Any] = getattr(_local, "environ", {})
    return environ
