"""The published configuration: the job, which reads all of it, and the functions, which read a part, get the same."""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.config.publish import as_functions_read, to_published
from blizzard.config.published import PublishedSource, PublishedTopics, read_published
from blizzard.errors import ConfigError

SMALL = """\
pipelines:
  events:
    table_uri: s3://lake/events
    sources:
      landing: {uri: "s3://${BUCKET}/raw", schema: "id STRING"}
"""

FULL = """\
pipelines:
  events:
    table_uri: s3://lake/events
    linger_secs: 30
    sources:
      landing:
        uri: s3://landing/raw/
        pattern: "**/*.gz"
        schema: "id STRING"
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}
        checkpoint: {interval_files: 11, interval_bytes: 12MB}
        settle_delay_secs: 13
        on_overwrite: replace
        sweep:
          {interval_secs: 14, late_interval_secs: 15, late_overlap_secs: 16, unordered_requests: 19, quiet_secs: 20}
        inventory: s3://reports/landing/daily
        retries: {max_attempts: 17, max_backoff_secs: 18}
      other: {uri: "s3://landing/other", format: text}
  plain:
    table_uri: s3://lake/plain
    sources:
      landing: {uri: "s3://plain", format: text}
"""


def published(text: str, **environ: str) -> str:
    return to_published(parse_config(text, environ))


names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,10}\Z")
words = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "${HOME}",
        "$${",
        "$$${x",
        "yes",
        "017",
        "\u2028",
        "\x85",
        "\\ud83d\\ude00",
        "\U0001f600\U0001f601",
        "\\\U0001f600",
    ]
)
secs = st.floats(min_value=1e-9, max_value=1e12) | st.integers(1, 10**12)
counts = st.integers(1, 10**38)
sources = st.fixed_dictionaries(
    {"uri": words.map(lambda word: f"s3://landing/{word}"), "format": st.just("text")},
    optional={
        "pattern": words,
        "partition_filter": st.fixed_dictionaries({"prefix_template": words.map("%Y{}".format), "lookback": counts}),
        "checkpoint": st.fixed_dictionaries({}, optional={"interval_bytes": counts, "interval_secs": secs}),
        "settle_delay_secs": secs,
        "sweep": st.fixed_dictionaries({}, optional={"interval_secs": secs, "late_overlap_secs": secs}),
        "partition_columns": st.dictionaries(words, st.sampled_from(["date", "INT"]), max_size=2),
    },
) | st.fixed_dictionaries(
    {
        "uri": words.map(lambda word: f"s3://other/{word}"),
        "schema": words.map(lambda word: f"id STRING COMMENT '{word}'"),
    }
)
pipelines = st.fixed_dictionaries(
    {"table_uri": words.map(lambda word: f"s3://lake/t{word}"), "sources": st.dictionaries(names, sources, max_size=2)},
    optional={"linger_secs": secs},
)


@given(st.dictionaries(names, pipelines, min_size=1, max_size=2))
def test_a_published_configuration_round_trips(value: dict[str, Any]) -> None:
    try:
        config = Config.model_validate({"pipelines": value})
        text = to_published(config)
    except ValidationError:
        return
    except ConfigError as error:
        # The generated sources conflict with each other.
        if "reads differently" in str(error):
            raise
        return
    assert parse_config(text, {"HOME": "/somewhere"}) == config
    assert to_published(parse_config(text, {})) == text
    read = read_published(text, "config.json")
    assert [source.uri for source in read.sources()] == [source.uri for _, source in config.sources()]
    assert [source.pattern for source in read.sources()] == [source.pattern for _, source in config.sources()]


@pytest.mark.parametrize(
    "word", ["${HOME}", "$${HOME}", "$$${x", "\u2028", "\x85é", "\\ud83d\\ude00", "\U0001f600\U0001f601"]
)
def test_unusual_texts_survive_publishing(word: str) -> None:
    uri = f"s3://landing/a{word}b/"
    value = {"table_uri": "s3://lake/t", "sources": {"s": {"uri": uri, "format": "text"}}}
    text = to_published(Config.model_validate({"pipelines": {"p": value}}))
    assert next(parse_config(text, {}).sources())[1].uri == uri
    assert next(read_published(text, "config.json").sources()).uri == uri


def test_functions_need_no_schema_and_the_job_gets_infer_as_it_is() -> None:
    text = to_published(parse_config(SMALL.replace("id STRING", "infer"), {"BUCKET": "landing"}))
    ((_, source),) = parse_config(text, {}).sources()
    assert source.infers_schema
    assert [found.id for found in read_published(text, "x").sources()] == ["events:landing"]


def test_variables_are_resolved_when_the_configuration_is_published() -> None:
    text = published(SMALL, BUCKET="landing")
    assert next(parse_config(text, {}).sources())[1].uri == "s3://landing/raw/"
    assert next(read_published(text, "config.json").sources()).uri == "s3://landing/raw/"


def expected_source(config: Config, pipeline: str, name: str) -> PublishedSource:
    source = config.pipelines[pipeline].sources[name]
    dated = source.partition_filter
    return PublishedSource(
        pipeline=source.pipeline,
        name=source.name,
        uri=source.uri,
        table_uri=config.pipelines[pipeline].table_uri,
        pattern=source.pattern,
        prefix_template=dated.prefix_template if dated else None,
        lookback=dated.lookback if dated else 1,
        settle_delay_secs=source.settle_delay_secs,
        sweep_interval_secs=source.sweep.interval_secs,
        late_interval_secs=source.sweep.late_interval_secs,
        late_overlap_secs=source.sweep.late_overlap_secs,
        unordered_requests=source.sweep.unordered_requests,
        quiet_secs=source.sweep.quiet_secs,
        inventory=source.inventory,
        interval_files=source.checkpoint.interval_files,
        interval_bytes=source.checkpoint.interval_bytes,
        max_attempts=source.retries.max_attempts,
        max_backoff_secs=source.retries.max_backoff_secs,
        on_overwrite=source.on_overwrite,
    )


def test_functions_read_the_values_of_the_configuration() -> None:
    config = parse_config(FULL, {})
    read = read_published(to_published(config), "config.json")
    assert list(read.pipelines) == ["events", "plain"]
    for name, pipeline in read.pipelines.items():
        theirs = config.pipelines[name]
        assert (pipeline.name, pipeline.table_uri, pipeline.linger_secs) == (name, theirs.table_uri, theirs.linger_secs)
        assert pipeline.sources == tuple(expected_source(config, name, source) for source in theirs.sources)
    for _, source in config.sources():
        (match,) = (found for found in read.sources() if found.id == source.id)
        assert match.state_prefix == source.state_prefix
    landing = read.pipelines["events"].sources[0]
    values = [getattr(landing, field.name) for field in dataclasses.fields(landing)]
    inventory = "s3://reports/landing/daily/"
    assert values[7:] == [13, 14, 15, 16, 19, 20, inventory, 11, 12_000_000, 17, 18, "replace"], (
        "each of these has a value of its own in the file"
    )


TOPICS = """\
pipelines:
  events:
    table_uri: s3://lake/events
    sources:
      landing: {uri: "s3://landing/raw/", format: text}
      clicks:
        kafka: {bootstrap_servers: "b-1:9092", topics: [clicks], run_interval_secs: 61}
        format: envelope
        retries: {max_attempts: 17, max_backoff_secs: 18}
"""


def test_functions_read_sources_of_topics_apart_from_those_of_files() -> None:
    read = read_published(published(TOPICS), "x")
    assert [source.id for source in read.sources()] == ["events:landing"]
    (clicks,) = read.topics()
    assert clicks == PublishedTopics("events", "clicks", "s3://lake/events", 61.0, 17, 18.0)
    ((_, source),) = [each for each in parse_config(TOPICS, {}).sources() if each[1].name == "clicks"]
    assert (clicks.id, clicks.state_prefix) == (source.id, source.state_prefix)


def test_a_configuration_of_the_version_before_has_no_topics() -> None:
    document = json.loads(published(FULL))
    for pipeline in document["pipelines"].values():
        for source in pipeline["sources"].values():
            del source["kafka"]
    assert not [*read_published(json.dumps(document), "x").topics()]


def test_the_same_configuration_is_published_as_the_same_text() -> None:
    assert published(FULL) == published(FULL)
    assert published(SMALL, BUCKET="a1b") != published(SMALL, BUCKET="a2b")


def test_a_too_large_configuration_is_not_published() -> None:
    columns = f"id STRING COMMENT '{'x' * (1 << 20)}'"
    value = {"table_uri": "s3://lake/t", "sources": {"s": {"uri": "s3://landing", "schema": columns}}}
    with pytest.raises(ConfigError, match="cannot be published: the published form: the file is larger than 1048576"):
        to_published(Config.model_validate({"pipelines": {"p": value}}))


def broken(**changes: object) -> str:
    document = json.loads(published(FULL))
    document["pipelines"]["events"].update(changes)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FULL, "Expecting value"),
        ("", "Expecting value"),
        ("[]", r"expected an object, found \[\]"),
        ("{}", "the key 'pipelines' is missing"),
        (
            json.dumps({"pipelines": {"p": {"table_uri": "s3://lake/t", "sources": {}}}}),
            "the key 'linger_secs' is missing",
        ),
        (broken(table_uri=7), "expected text, found 7"),
        (broken(linger_secs="7"), "expected a number, found '7'"),
        (broken(table_uri="s3://${LAKE}/t"), "is not resolved"),
        (broken(sources=None), "expected an object, found None"),
        ("[" * 100_000, "Recursion|recursion"),
    ],
)
def test_the_error_for_an_unpublished_configuration_says_what_to_do(text: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found) as caught:
        read_published(text, "s3://artifacts/config.json")
    (problem,) = caught.value.problems
    assert problem.startswith("s3://artifacts/config.json: expected a published configuration")
    assert "run `make publish`" in problem


def test_a_published_configuration_is_read_without_pydantic_and_yaml() -> None:
    code = (
        "import sys, blizzard.config.published; print([m for m in ('pydantic', 'ruamel', 'yaml') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_what_functions_would_read_is_known_of_a_configuration_with_a_password_too() -> None:
    login = "security: {mechanism: PLAIN, username: u, password: secret-password}"
    text = TOPICS.replace("topics: [clicks],", f"topics: [clicks], {login},")
    with pytest.raises(ConfigError, match="found a password"):
        published(text)
    config = parse_config(text, {})
    assert [source.id for source in as_functions_read(config).topics()] == ["events:clicks"]
    assert "secret-password" not in str(as_functions_read(config))
