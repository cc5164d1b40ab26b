"""A Delta log on S3 or on local files, as the tests of log stores see it."""

from collections.abc import Callable
from typing import Any

from blizzard.config.spark_settings import LOG_STORES, settings
from tests.crash.logstore.jvm import ROOT

S3_STORE, LOCAL_STORE = LOG_STORES["s3a"], LOG_STORES["file"]


class TwoWinners(AssertionError):
    """Both writers got a success for one version, and one of the two commits is lost."""


def hadoop_settings(endpoint: str | None = None) -> list[str]:
    """The settings of a session, without the prefix `spark.hadoop.`."""
    prefix = "spark.hadoop."
    given = settings(jars_dir=str(ROOT / "jars"), s3_endpoint=endpoint)
    return [f"{key.removeprefix(prefix)}={value}" for key, value in given.items() if key.startswith(prefix)]


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def content(writer: str, version: int) -> str:
    return f'{{"writer":"{writer}"}}\n{{"version":{version}}}\n'


class S3Log:
    """A log that is alone in its bucket. `client`: boto3's."""

    def __init__(self, client: Any, bucket: str) -> None:
        self.uri = f"s3a://{bucket}/_delta_log"
        self._bucket, self._client = bucket, client

    def read(self, version: int) -> str:
        found = self._client.get_object(Bucket=self._bucket, Key=f"_delta_log/{commit_name(version)}")
        return str(found["Body"].read().decode())

    def put_by_somebody(self, version: int) -> None:
        self.put_beside(f"_delta_log/{commit_name(version)}", content("somebody", version))

    def put_beside(self, key: str, body: str = "") -> None:
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body.encode())


def check_race(winners: list[list[int]], held: Callable[[int], str]) -> None:
    """`held`: what the log holds of a version. Raises TwoWinners, or AssertionError for everything else."""
    assert all(winners), "a version that nobody won"
    doubled = [version for version, won in enumerate(winners) if len(won) > 1]
    if doubled:
        raise TwoWinners(f"{len(doubled)} of {len(winners)} versions, the first is {doubled[0]}")
    for version, (winner,) in enumerate(winners):
        assert held(version) == content(f"writer-{winner}", version)
    assert {winner for (winner,) in winners} == {0, 1}, "one writer won every version: this was no race"
