"""The columns of an inferred schema in a table that exists and has none, while others give it some."""

from collections.abc import Iterator
from typing import Any

import pytest

from blizzard.errors import PermanentError, RetryableError
from blizzard.state.schema_origin import First
from spark_job.infer.first_records import Inferred
from spark_job.infer.late_schema import LateSchema


class Table:
    """Refuses whatever does not fit its columns."""

    def prepare(self) -> None:
        raise PermanentError("its columns have other types")


def late_schema(answers: Iterator[str]) -> LateSchema[Any]:
    """`answers`: the columns that the table has whenever it is asked."""
    return LateSchema(lambda schema, **how: Table(), lambda: next(answers))  # type: ignore[arg-type,return-value]


def test_columns_that_another_job_adds_at_the_same_moment_are_read_with_at_the_next_attempt() -> None:
    late = late_schema(iter(["", "", "id STRING"]))
    late.prepare()
    with pytest.raises(RetryableError, match="has got its columns just now, from another job: its columns have other"):
        late.settle(Inferred("id BIGINT", First(1, "a.ndjson")))


def test_columns_that_a_table_without_any_refuses_are_an_error() -> None:
    late = late_schema(iter(["", "", ""]))
    late.prepare()
    with pytest.raises(PermanentError, match="its columns have other types"):
        late.settle(Inferred("id BIGINT", First(1, "a.ndjson")))
