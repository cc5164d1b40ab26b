"""Restores the signal handlers after a test."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, listener in before.items():
        signal.signal(number, listener)
