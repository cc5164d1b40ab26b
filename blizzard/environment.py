"""The one place that reads the process environment."""

import os
from collections.abc import Mapping


def variables() -> Mapping[str, str]:
    """A copy of the environment as it is now, for `${VAR}` in a configuration."""
    return dict(os.environ)


def adopt(changes: Mapping[str, str]) -> None:
    """Lay `changes` over this process's environment, for SDKs that look there; only tools of this machine do that."""
    os.environ.update(changes)
