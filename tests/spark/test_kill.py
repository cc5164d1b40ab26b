"""Exactly once, even if Python and JVM are killed together between two slices of a file.

The campaign `kill` of the proof covers other moments, in jobs that share a JVM; here the job runs as users start it.
"""

import pytest

from tests.spark.lake import Lake, ids, until

pytestmark = pytest.mark.spark

LARGE, RECORDS = "m-large.ndjson.gz", 15_000


def test_a_job_killed_in_the_middle_of_a_large_file_loses_and_doubles_nothing(
    lake: Lake,
) -> None:
    lake.settings |= {"checkpoint": {"interval_files": 9, "interval_bytes": "50KB"}}
    for n in range(4):
        lake.put(f"{'az'[n % 2]}{n}.ndjson.gz", *ids(100 * n, 100 * n + 100), "broken")
    lake.put(LARGE, *({"id": f"{n:060d}-{n * 7919 % 10007}", "n": n} for n in range(RECORDS)))
    lake.write_config()
    with lake.process() as job:
        until(lambda: len(lake.versions()) > 1 and LARGE in lake.state().in_progress)
        job.kill()
    assert 0 < lake.files()[LARGE] < RECORDS
    assert lake.run().commits > 0
    verdict = lake.verdict()
    assert verdict.good, list(verdict.lines())
    assert (verdict.rows_out, len(verdict.dead_letters)) == (400 + RECORDS, 4)
    assert lake.run().commits == 0
