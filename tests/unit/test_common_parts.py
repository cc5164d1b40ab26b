"""Calls that several expressions have in common are evaluated once for each batch, and no others are taken for them."""

from pyspark.sql.types import StructType

from blizzard.config.ddl import Atomic
from blizzard.config.expressions.syntax import Call, Field, Literal
from spark_job.expressions.common_parts import CommonParts
from spark_job.expressions.evaluated import Evaluated
from spark_job.expressions.understood import understood

COLUMNS = StructType.fromJson(
    {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
)
DOUBLE = Atomic("double")


class Counted:
    """Evaluations, each with a value of its own."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Evaluated:
        self.count += 1
        return Evaluated(self.count)


def time_in(sql: str) -> tuple[Call, Call]:
    """The expression, and the call inside it."""
    whole = understood(sql, COLUMNS)
    assert isinstance(whole, Call)
    inner = whole.arguments[0]
    assert isinstance(inner, Call)
    return whole, inner


def test_a_call_of_two_expressions_is_evaluated_once_in_a_batch_and_again_in_the_next() -> None:
    day, time = time_in("date(timestamp_seconds(n))")
    hour, same_time = time_in("hour(timestamp_seconds(n))")
    parts, evaluate = CommonParts([day, hour]), Counted()
    for batch in (1, 2):
        known = parts.begin()
        assert known.of(time, evaluate) == known.of(same_time, evaluate) == Evaluated(batch)
    assert evaluate.count == 2


def test_a_call_that_occurs_once_is_not_kept() -> None:
    day, time = time_in("date(timestamp_seconds(n))")
    known, evaluate = CommonParts([day]).begin(), Counted()
    assert known.of(time, evaluate) != known.of(time, evaluate)


def test_calls_that_are_equal_for_python_alone_are_different() -> None:
    zeros = [Call("coalesce", (Field(("x",), DOUBLE), Literal(value, DOUBLE)), DOUBLE) for value in (0.0, -0.0)]
    assert zeros[0] == zeros[1]
    known, evaluate = CommonParts(zeros * 2).begin(), Counted()
    assert known.of(zeros[0], evaluate) != known.of(zeros[1], evaluate)
    assert evaluate.count == 2
