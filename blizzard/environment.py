"""The one place that reads the process environment."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def variables() -> Mapping[str, str]:
    """A copy of the environment."""
    return dict(os.environ)


def set_variables(changes: Mapping[str, str]) -> None:
    """For SDKs that read the environment themselves. Only local tools and the Spark session do that."""
    os.environ.update(changes)


@contextmanager
def temporary_variables(changes: Mapping[str, str]) -> Iterator[None]:
    """Sets variables within a block. Other threads see them too."""
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
