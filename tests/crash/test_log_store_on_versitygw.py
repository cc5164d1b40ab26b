"""One winner for each version of a Delta log on an S3 server that is not a simulation."""

from pathlib import Path

import pytest

from tests.crash.logstore.jvm import compile_driver, serving
from tests.crash.logstore.log import S3_STORE, S3Log, check_race, commit_name, hadoop_settings
from tests.fixtures_versitygw import S3Server

pytestmark = pytest.mark.spark

VERSIONS = 80


def test_two_jvms_have_one_winner_for_each_version_on_versitygw(versitygw: S3Server, tmp_path: Path) -> None:
    driver = compile_driver(tmp_path / "classes", versitygw.environment())
    log, given = S3Log(versitygw.client(), versitygw.new_bucket("log-race")), hadoop_settings(versitygw.endpoint)
    winners = driver.race(S3_STORE, log.uri, VERSIONS, tmp_path, given)
    check_race(winners, log.read)
    with serving(driver) as server:
        newest = [commit_name(version) for version in range(VERSIONS - 2, VERSIONS)]
        assert server.ask("list", S3_STORE, log.uri, VERSIONS - 2, *given) == newest
