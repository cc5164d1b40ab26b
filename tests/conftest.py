"""What all tests share. Fixtures live in modules of their own, named for what they provide."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.fixtures_aws",
    "tests.fixtures_s3",
    "tests.fixtures_faulty_s3",
    "tests.fixtures_versitygw",
    "tests.fixtures_kafka",
    "tests.fixtures_signals",
    "tests.fixtures_cluster",  # after what it imports
]

# How long an example takes says more about the machine than about the code.
# The same examples each time: a run that fails, fails again. `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("blizzard", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile("blizzard")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n` alone; another `--dist` is as asked for."""
    from tests.workers import ByFixture

    return ByFixture(config, log) if config.getvalue("dist") == "load" else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Compressed bytes hold the time at which they were made, and every worker must call a test the same."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`tests/localstack` only where it is named, as `make test-localstack` does: it needs tools of its own."""
    apart = collection_path == Path(__file__).parent / "localstack"
    return True if apart and not any("tests/localstack" in word for word in config.args) else None
