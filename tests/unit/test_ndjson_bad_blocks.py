"""The fast parser: bad lines among many, and what hostile input can do to it."""

import json
from decimal import Decimal

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
)

from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.refusal import refusal
from spark_job.formats.refusals import is_missing
from tests.unit.ndjson_blocks import DEFERRED, GOOD, SIMPLE, accepted, one, parse, reason_without_spark

# --- Broken lines among many ---

BROKEN = {
    "truncated": lambda line: line[: len(line) // 2],
    "type": lambda line: line.replace('"n":', '"n":"x') [:-1] + '"}',
    "fraction": lambda line: line[:-1] + ".5}",
    "syntax": lambda line: line.replace(',"n"', '"n"'),
    "twice": lambda line: line[:-1] + ',"n":1}',
    "two": lambda line: line + line,
    "missing": lambda line: line.replace('"id"', '"ID"'),
    "garbage": lambda line: "\x01 no JSON",
    "number": lambda line: line.replace('"id":"', '"id":1,"x":"'),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*BROKEN, "mixed"])
@pytest.mark.parametrize("every", [100, 3, 1])
def test_good_lines_are_accepted_among_any_number_of_bad_ones(kind: str, every: int) -> None:
    kinds = list(BROKEN)
    parser = NdjsonParser(SIMPLE)
    for _ in range(2):  # the second block profits from what the first one taught
        lines = []
        for n in range(3000):
            line = f'{{"id":"{n}","n":{n}}}'
            lines.append(BROKEN[kinds[n % len(kinds)] if kind == "mixed" else kind](line) if n % every == 0 else line)
        parsed = parser.parse("\n".join(lines).encode())
        assert accepted(parsed) == {n: {"id": str(n), "n": n} for n in range(3000) if n % every}
        refused = dict(parsed.refused)
        assert list(refused) == [n for n in range(3000) if n % every == 0]
        assert refused == {
            n: is_missing("id") if '"ID"' in lines[n] else reason_without_spark(lines[n]) for n in refused
        }


def test_lines_that_only_look_bad_are_accepted_when_there_are_many() -> None:
    lines = [f'{{"id":"{n}","n":{n},"user":{{"id":{n},"n":"x"}}}}' for n in range(1000)]
    lines[500] = '{"id":"500","n":"x"}'
    parsed = parse(*lines)
    assert list(parsed.refused) == [(500, "n: the value does not fit bigint")]
    assert sorted(accepted(parsed)) == [n for n in range(1000) if n != 500]


def test_strings_that_look_like_numbers_stay_strings() -> None:
    lines = [f'{{"id":"{n}, Inf, -NaN] Infinity}} NaN, Information","n":{n}}}' for n in range(50)]
    lines[7] = '{"id":"7","n":7,"z":[1,Inf]}'
    lines[9] = '{"id":"9","n":9,"z":[1, -NaN ]}'
    lines[11] = '{"id":"11","n":11,"z":[NaN,Infinity]}'
    parsed = parse(*lines)
    assert sorted(accepted(parsed)) == [n for n in range(50) if n not in (7, 9)]
    assert list(parsed.refused) == [(n, refusal(lines[n])) for n in (7, 9)]


# --- Limits that Spark has and Arrow has not ---


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("1" * 999, True),
        ("1" * 1001, False),
        ("0." + "1" * 1000, False),
        ("-" + "1" * 1001, False),
        ("1e" + "0" * 1000 + "1", False),
        (f'"{"1" * 5000}"', None),
        ("[" * 900 + "]" * 900, True),
        ("[" * 1000 + "]" * 1000, False),
        ("[" * 100_000 + "]" * 100_000, False),
        ('{"a":' * 1000 + "1" + "}" * 1000, False),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, False),
        ("[" + ",".join(["[1]"] * 3000) + "]", None),
        (f'{{"{"k" * 49_000}":1}}', None),
        (f'{{"{"k" * 50_001}":1}}', False),
        (f'{{"{"é" * 25_001}":1}}', None),
        (f'"{"x" * 60_000}"', True),
        (json.dumps({"a": ["x" * 60_000, {"b": 1}]}), True),
        (json.dumps(["b"] * 30_000), True),
    ],
)
def test_a_line_above_jacksons_limits_is_not_accepted(value: str, is_taken: bool | None) -> None:
    """None: taken or left, both are right."""
    parsed = parse(GOOD, f'{{"id":"b","z":{value}}}', GOOD)
    assert {0, 2} <= set(accepted(parsed))
    if is_taken is not None:
        assert (1 in accepted(parsed)) is is_taken


@pytest.mark.parametrize("exponent", ["e-999999999", "e-40", "e-100", "e-2147483648", "E-77", "e999999999", "e100"])
@pytest.mark.parametrize("mantissa", ["0", "1", '"0', '"1', "0.0", '"\\u0030', '"0.0\\u0030'])
@pytest.mark.parametrize("decimal", [DecimalType(5, 2), DecimalType(38, 18), DecimalType(38, 38)])
def test_hostile_exponents_do_not_reach_arrow(exponent: str, mantissa: str, decimal: DecimalType) -> None:
    value = mantissa + exponent + ('"' if mantissa.startswith('"') else "")
    found = one(decimal, value, f"[{value}]")
    assert found[0] in (DEFERRED, Decimal(0))
    assert found[1] == DEFERRED


@pytest.mark.parametrize("text", [r"0e-9\u0039999999", r"0\u0065-999999999", r"0e\u002d999999999", r"0\u0045-99999999"])
def test_escapes_do_not_hide_an_exponent(text: str) -> None:
    for decimal in (DecimalType(5, 2), DecimalType(38, 18)):
        assert one(decimal, f'"{text}"') == [DEFERRED]


def test_too_many_digits_of_a_decimal_never_wrap_around() -> None:
    long = ["1" * count for count in range(19, 90)]
    for decimal in (DecimalType(38, 18), DecimalType(38, 0), DecimalType(20, 10), DecimalType(10, 2)):
        found = one(decimal, *long)
        assert all(value == DEFERRED or value == Decimal(text) for value, text in zip(found, long, strict=True))
    # Its digits at scale 18 are 2^256 and a little.
    assert one(DecimalType(38, 18), str((1 << 256) // 10**18 + 1)) == [DEFERRED]


def test_a_number_too_small_for_a_double_is_left_to_spark() -> None:
    assert one(DecimalType(5, 2), "1e-999999999", "0e-99999", "0e9999999999") == [DEFERRED] * 3
    assert one(ArrayType(DecimalType(5, 2)), "[1,1e-999999999]", "[1,0]") == [DEFERRED, [Decimal(1), Decimal(0)]]
    assert one(DecimalType(5, 2), "0", "0.00", "1e-400") == [Decimal("0.00")] * 3
