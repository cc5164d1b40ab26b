"""Which lines are one JSON object, and why the others are not."""

import pytest

from spark_job.formats.json.refusal import refusal


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        ' {"a": 1} ',
        '{"a": NaN, "b": -Infinity}',
        '{"a": "\\u00e9\\ud83d\\ude00"}',
        '{"a": 123456789012345678901}',
    ],
)
def test_one_object_is_a_record(line: str) -> None:
    assert refusal(line) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1', "not JSON"),
        ('{"a": 1} {"a": 2}', "not JSON"),
        ('{"a": 1},', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("[1]", "found an array"),
        ('"a"', "found a string"),
        ("1.5", "found a number"),
        ("true", "found a boolean"),
        ("null", "found null"),
        ("NaN", "found a number"),
        ('{"a": +INF}', "not JSON"),
        ('{"a": -INF}', "not JSON"),
        ('{"a": +Infinity}', "not JSON"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ('{"\\udfff": 1}', "lone surrogate"),
        ('{"a": {"b": "\\ud800", "b": 1}}', "lone surrogate"),
        ("[" * 5000, "not JSON"),
        ('{"a":' * 5000, "not JSON"),
        ('{"a": ' + "9" * 5000 + ', "b": NaN}', "not JSON"),
    ],
)
def test_any_other_line_is_refused_with_its_reason(line: str, reason: str) -> None:
    assert reason in str(refusal(line))
