"""What an audit finds of rows is put right by what the runbook says of it, where that takes Spark."""

import time

import pytest

from blizzard.cli import main
from tests.unit.rebuild_lake import RebuildLake
from tests.unit.test_audit_remedies import REPLACED, audit, found, lake, remedies

__all__ = ["lake"]
pytestmark = pytest.mark.spark


def test_what_was_done_to_rows_is_put_right_by_replacing_their_files(
    lake: RebuildLake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {remedies()[name].count("blizzard replace pipelines.yaml --path FILE") for name in REPLACED} == {1}
    lake.file.write_text(lake.file.read_text().replace("engine: local", "engine: auto"))
    paths = {name: f"day={time.gmtime().tm_year}/{name}.ndjson" for name in REPLACED}
    for path in paths.values():
        lake.land(path)
    assert lake.run() == 0
    for name, plant in REPLACED.items():
        plant(lake, paths[name])
    code, report = audit(lake, capsys)
    assert (code, {*REPLACED} <= found(report)) == (1, True), report
    for name in REPLACED:
        assert paths[name] in [each["path"] for each in report["names"][name]]
    chosen = [word for path in paths.values() for word in ("--path", path)]
    assert main(["replace", "pipelines.yaml", *chosen]) == 0
    code, report = audit(lake, capsys)
    assert (code, found(report)) == (0, set()), report
