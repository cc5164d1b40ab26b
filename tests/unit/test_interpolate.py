"""`${VAR}` in the texts of a configuration."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.config.interpolate import InterpolationError, interpolate, interpolate_all
from blizzard.config.load import LoadResult, read_config
from blizzard.config.problems import Problems

ENVIRON = {"BUCKET": "lake", "EMPTY": "", "_X1": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://${BUCKET}/events", "s3://lake/events"),
        ("${BUCKET}${_X1}${BUCKET}", "lakexlake"),
        ("${MISSING:-landing}", "landing"),
        ("${EMPTY:-landing}", "landing"),
        ("${BUCKET:-landing}", "lake"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b}", "a:-b"),
        ("${MISSING:-**/*.{json,ndjson}}", "**/*.{json,ndjson}"),
        ("${BUCKET:-**/*.{json,ndjson}}.gz", "lake.gz"),
        ("$${BUCKET}", "${BUCKET}"),
        ("$${BUCKET} ${BUCKET}", "${BUCKET} lake"),
        ("$BUCKET $ $$ {BUCKET} 100$", "$BUCKET $ $$ {BUCKET} 100$"),
    ],
)
def test_variables_in_a_text_are_replaced(text: str, expected: str) -> None:
    assert interpolate(text, ENVIRON) == expected


def test_a_replaced_value_is_not_interpolated_again() -> None:
    assert interpolate("${A}", {"A": "${B} $${C}", "B": "no"}) == "${B} $${C}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("s3://${MISSING}/x", "variable MISSING is not set; set it, or give it a default: ${MISSING:-…}"),
        ("${", "`${` is not closed"),
        ("${BUCKET", "`${` is not closed"),
        ("${BUCKET:-{a}", "`${` is not closed"),
        ("${}", "expected ${NAME} or ${NAME:-default}"),
        ("${1A}", "expected ${NAME} or ${NAME:-default}"),
        ("${BUCKET-x}", "expected ${NAME} or ${NAME:-default}"),
        ("${BUCKET:?x}", "expected ${NAME} or ${NAME:-default}"),
        ("${ BUCKET }", "expected ${NAME} or ${NAME:-default}"),
        ("${MISSING:-${BUCKET}}", "without a variable in it"),
    ],
)
def test_an_invalid_variable_is_reported(text: str, what: str) -> None:
    with pytest.raises(InterpolationError) as error:
        interpolate(text, ENVIRON)
    assert what in str(error.value)


def test_all_texts_of_a_document_are_interpolated_but_no_keys_or_numbers() -> None:
    problems = Problems("f", {})
    value = {"${BUCKET}": ["${BUCKET}", {"a": "${MISSING}"}, 5, None, True]}
    assert interpolate_all(value, ENVIRON, problems) == {"${BUCKET}": ["lake", {"a": "${MISSING}"}, 5, None, True]}
    assert [problem.path for problem in problems.sorted()] == [("${BUCKET}", 1, "a")]


@given(st.text(st.sampled_from("$${}:-AB x"), max_size=30))
def test_any_text_is_interpolated_or_refused(text: str) -> None:
    try:
        done = interpolate(text, {"A": "1", "B": ""})
    except InterpolationError:
        return
    assert done == text or "${" in text


YAML = [
    "x\n        format: text",
    '"\n        format: text',
    'x", format: text',
    "{a: b}",
    "[a, b]",
    "- a\n- b",
    "x # y",
    "*a",
    "&a x",
    "!!python/name:os.system",
    "null",
    "7",
    "---\nx",
]


@pytest.mark.parametrize("written", ["${V}", '"${V}"', "'*${V}'"])
@given(value=st.sampled_from(YAML) | st.text())
def test_a_variable_cannot_add_yaml(written: str, value: str) -> None:
    """The file gives the same result as with the text of the variable in its place, each character escaped."""
    assume("${" not in value)
    text = written.strip("\"'").replace("${V}", value)
    escaped = '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'
    assert reading(written, {"V": value}) == reading(escaped, {})


def reading(pattern: str, environ: dict[str, str]) -> LoadResult:
    lines = ["uri: s3://landing/a", "schema: id STRING", f"pattern: {pattern}", "format: ndjson"]
    source = "".join(f"        {line}\n" for line in lines)
    text = f"pipelines:\n  p:\n    table_uri: s3://lake/t\n    sources:\n      s:\n{source}"
    return read_config(text, environ, name="f.yaml", folder=None)


def test_the_value_of_a_variable_is_always_text() -> None:
    read = [reading("${V}", {"V": value}).config for value in YAML]
    patterns = [source.pattern for config in read if config for _, source in config.sources()]
    assert len(patterns) > 3
    assert set(patterns) <= set(YAML)


@given(st.text())
def test_an_escaped_text_is_unchanged(text: str) -> None:
    escaped = text.replace("${", "$${")
    if "$$${" not in escaped:
        assert interpolate(escaped, {}) == text
