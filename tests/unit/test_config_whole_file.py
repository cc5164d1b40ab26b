"""All problems of a file at once, files that are no configuration, and random damage."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.document import read_document
from blizzard.config.load import load_config, read_config
from blizzard.errors import ConfigError
from tests.unit.config_files import FULL, problems, source_lines

BROKEN = """\
pipelines:
  events:
    table_uri: ${LAKE}/events
    partition_by: [region]
    sources:
      landing:
        uri: s3://landing/raw/
        patern: "*.gz"
        schema: id STRNG
        checkpoint: {interval_files: none}
      twice:
        uri: s3://landing/raw/more
        schema: id INT
        format: text
        schema: id INT
      nothing: {}
  other:
    table_uri: s3://landing/raw/table
pipeline: {}
"""


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    places_and_texts = [
        "3: pipelines.events.table_uri: variable LAKE is not set",
        "8: pipelines.events.sources.landing.patern: unknown key",
        "9: pipelines.events.sources.landing.schema: Spark cannot use",
        "10: pipelines.events.sources.landing.checkpoint.interval_files: found 'none'",
        "12: pipelines.events.sources.twice.uri: found s3://landing/raw/more/, which lies inside",
        "13: pipelines.events.sources.twice.schema: occurs twice, on lines 13 and 15; remove one",
        "16: pipelines.events.sources.nothing.uri: is missing; add it: The folder or prefix",
        "16: pipelines.events.sources.nothing.schema: is missing",
        "17: pipelines.other.sources: is missing; add it",
        "18: pipelines.other.table_uri: found s3://landing/raw/table/, which lies inside",
        "19: pipeline: unknown key; did you mean `pipelines`?",
    ]
    found = problems(BROKEN)
    assert len(found) == len(places_and_texts)
    for problem, expected in zip(found, places_and_texts, strict=True):
        assert problem.startswith(f"f.yaml:{expected}")


@pytest.mark.parametrize(
    "text",
    [
        source_lines("uri: s3://landing", "schema: id INT", "checkpoint: {interval_files: '${X}'}"),
        source_lines("uri: s3://landing", "schema: id INT", "format: ${X}"),
        source_lines("uri: s3://landing", "schema: ${X}", pipeline="    partition_by: [date]\n"),
        source_lines("uri: s3://landing", "schema: id INT", pipeline="    partition_by: ['${X}']\n"),
        source_lines("uri: ${X}", "schema: id INT", table="/conf"),
        source_lines("uri: /conf", "schema: id INT", table="${X}"),
    ],
)
def test_a_missing_variable_causes_no_other_problem(text: str) -> None:
    (found,) = problems(text)
    assert "variable X is not set" in found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "f.yaml:1: the file is empty; expected `pipelines:`"),
        ("# nothing\n", "f.yaml:1: the file is empty"),
        ("hello", "f.yaml:1: found 'hello', expected a mapping of settings"),
        ("- pipelines", "f.yaml:1: found a list, expected a mapping"),
        ("pipelines:", "f.yaml:1: pipelines: found nothing, expected a mapping of names to values"),
        ("pipelines: {}", "f.yaml:1: pipelines: there is no pipeline; add one"),
        ("pipelines: {a: {table_uri: /t, sources: {}}}", "f.yaml:1: pipelines.a.sources: there is no source"),
        ("a: [\nb: 1", "f.yaml:2: this is not YAML: "),
        ("a:\n\t- b", "f.yaml:2: this is not YAML: found character '\\t'"),
        ("a: 1\n---\nb: 2", "f.yaml:2: this is not YAML: but found another document"),
        ("a: 1\nb: \0", "f.yaml:2: found the control character U+0000; remove it"),
        ("pipelines: *x", "f.yaml:1: this is not YAML: found undefined alias (column 12); correct"),
        (
            "a:\n  {b: c, d: ${PASSWORD}}",
            'f.yaml:2: this is not YAML: a variable inside of `{…}` or `[…]` needs quotes; expected "${NAME}" (col',
        ),
        ("a: [p${hunter}]", "f.yaml:1: this is not YAML: a variable inside of `{…}` or `[…]` needs quotes"),
        (
            "pipelines: !!python/name:os.system x",
            "f.yaml:1: pipelines: begins with `!`, which makes a tag of it in YAML; ex",
        ),
        ("pipelines: !mine {}", "in YAML; expected a plain value: remove the tag, or put it in quotes"),
        ('"a\\ud83d": 1', "f.yaml:1: has half of a surrogate pair, which is no character; expected both halves"),
        ('a: "b\\ude00"', "f.yaml:1: a: has half of a surrogate pair"),
        ("? [a]\n: 1", "f.yaml:1: found a sequence as a key on line 1; expected a word"),
        ("a: &a [*a]", "f.yaml:1: the file is nested deeper than 20 levels"),
        ("[" * 100_000, "f.yaml:1: the file is nested deeper than 20 levels"),
        ("#" * (1 << 20) + "#", "f.yaml: the file is larger than 1048576 bytes"),
        ("é" * (1 << 19) + "é", "f.yaml: the file is larger than 1048576 bytes"),
    ],
)
def test_a_text_that_is_not_a_configuration_is_reported(text: str, what: str) -> None:
    assert what in problems(text)[0]


def test_an_escaped_pair_of_surrogates_is_one_character() -> None:
    document = read_document(r'{"a\ud83d\ude00": "\ud83d\ude00", "b": "\u00e9"}', "f.yaml")
    assert (document.value, document.problems) == ({"a\U0001f600": "\U0001f600", "b": "é"}, ())


def test_aliases_that_expand_to_billions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    (found,) = problems("\n".join(lines))
    assert "expands to more than 20000 values; use fewer aliases" in found


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read: No such file or directory; expected the path of a configuration file"),
        (b"a: 1\nb: \xff", ":2: found a byte that is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, content: bytes | None, what: str) -> None:
    file = tmp_path / "pipelines.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_config(file, {})
    assert error.value.problems[0].startswith(str(file))
    assert what in error.value.problems[0]


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + FULL.encode())
    assert load_config(file, {}).pipelines


lines_of_full = FULL.splitlines()
junk = st.sampled_from(
    ["", "x", "5", "[]", "{}", "- a", "  a: b", "${X}", "${", "*x", "&x", "!y", "'", '"', "null", "\t", "pipelines:"]
)


@given(st.lists(st.tuples(st.integers(0, len(lines_of_full) - 1), st.integers(0, 60), junk), max_size=3))
def test_a_damaged_file_is_read_or_refused_with_a_reason(damage: list[tuple[int, int, str]]) -> None:
    lines = list(lines_of_full)
    for line, cut, text in damage:
        lines[line] = lines[line][:cut] + text
    reading = read_config("\n".join(lines), {}, name="f", folder="/conf")
    assert (reading.config is None) == bool(reading.problems)
    assert all(str(problem).startswith("f:") for problem in reading.problems)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    assert read_config(text, {}, name="f", folder=None).problems
