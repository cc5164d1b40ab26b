"""The request that a thread of the server works on, for what moto does not hand down."""

import threading
from typing import Any

_local = threading.local()


def take_in_hand(environ: dict[str, Any]) -> None:
    _local.environ = environ


def request_at_hand() -> dict[str, Any]:
    """Its WSGI environment; empty outside a request."""
    environ: dict[str, Any] = getattr(_local, "environ", {})
    return environ
