"""The one place that reads the process environment."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def variables() -> Mapping[str, str]:
    """A copy of the environment as it is now, for `${VAR}` in a configuration."""
    return dict(os.environ)


def adopt(changes: Mapping[str, str]) -> None:
    """Lay `changes` over this process's environment, for SDKs that look there; only tools of this machine do that."""
    os.environ.update(changes)


@contextmanager
def adopted(changes: Mapping[str, str]) -> Iterator[None]:
    """As `adopt`, for the length of a block; other threads see it too."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
