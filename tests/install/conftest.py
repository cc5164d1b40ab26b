"""One wheel and one installation for all tests of this folder."""

from pathlib import Path

import pytest

from tests.install.installed import Installation, build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation.of(wheel, tmp_path_factory.mktemp("installed"))
