"""What Spark's Python workers are told by the session's settings."""

import resource
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BLOCK_BYTES = 5 << 20
AT_ONCE, TIMES = 4, 50
PAGE_BYTES = resource.getpagesize()


def pages_asked_for(_: int) -> int:
    """By a task whose blocks of memory come and go, as those of a reader do."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(TIMES):
        blocks = [bytes([number % 250 + 1]) * BLOCK_BYTES for _ in range(AT_ONCE)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_worker_reuses_memory_blocks(spark: Callable[[], SparkSession]) -> None:
    asked = spark().sparkContext.parallelize([0], 1).map(pages_asked_for).collect()
    assert asked[0] * PAGE_BYTES < 5 * AT_ONCE * BLOCK_BYTES  # of 50 times
