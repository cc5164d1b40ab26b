"""What the files of several campaigns share."""

from collections.abc import Iterator

import pytest

from tests.proof.kill import stage as kill_stage

MODULES = ("tests.proof.kill.job", "tests.proof.race.racing_processes")


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kill_stage.Stage]:
    """One JVM, which `kill` kills once, for `kill` and `race`."""
    with kill_stage.stage(tmp_path_factory.mktemp("stage"), MODULES) as made:
        yield made
