"""The block `kafka` of a source."""

import json
import re
from pathlib import Path

import pytest

from blizzard.cli.selection import selected, selected_of_files
from blizzard.config.load import parse_config
from blizzard.config.model import Source
from blizzard.errors import ConfigError

SERVERS = 'bootstrap_servers: "b1:9092, b2:9093"'
LOGIN = "mechanism: SCRAM-SHA-512, username: u, password: secret-password"


def text(kafka: str, source: str = "format: envelope") -> str:
    return f"""
        pipelines:
          p:
            table_uri: s3://lake/t
            sources:
              s:
                kafka: {{{kafka}}}
                {source}
    """


def source(kafka: str, more: str = "format: envelope") -> Source:
    ((_, found),) = parse_config(text(kafka, more), {}).sources()
    return found


def problem(kafka: str, more: str = "format: envelope") -> str:
    with pytest.raises(ConfigError) as refused:
        parse_config(text(kafka, more), {})
    return "\n".join(refused.value.problems)


def test_defaults_read_everything_from_the_beginning_without_security() -> None:
    options = source(f"{SERVERS}, topics: [a, b]").kafka
    assert options is not None
    assert (options.start, options.isolation, options.on_lost_offsets) == ("earliest", "read_committed", "stop")
    assert options.client_settings() == {"bootstrap.servers": "b1:9092,b2:9093", "security.protocol": "PLAINTEXT"}
    assert [options.matches(name) for name in ("a", "b", "c", "ab")] == [True, True, False, False]


def test_a_pattern_matches_whole_names() -> None:
    options = source(f"{SERVERS}, topic_pattern: 'clicks-.*'").kafka
    assert options is not None
    assert [options.matches(name) for name in ("clicks-1", "my-clicks-1", "clicks")] == [True, False, False]
    options = source(f"{SERVERS}, topic_pattern: '.*'").kafka
    assert options is not None
    internal = ["__consumer_offsets", "__transaction_state", "__amazon_msk_canary"]
    assert [options.matches(name) for name in (*internal, "_schemas", "a__b")] == [False] * 3 + [True] * 2


@pytest.mark.parametrize("start", ["2026-11-01T00:00:00Z", "'2026-11-01T01:00:00+01:00'"])
def test_a_start_is_a_time_however_yaml_reads_it(start: str) -> None:
    options = source(f"{SERVERS}, topics: [a], start: {start}").kafka
    assert options is not None
    assert options.start_ts == 1793491200.0


def test_a_password_is_in_the_clients_settings_and_nowhere_else() -> None:
    found = source(f"{SERVERS}, topics: [a], security: {{{LOGIN}}}")
    assert found.kafka is not None
    settings = found.kafka.client_settings()
    assert settings["sasl.password"] == "secret-password"
    assert settings["security.protocol"] == "SASL_SSL"
    assert "secret-password" not in repr(found)
    assert "secret-password" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        ("topics: [a]", "bootstrap_servers: is missing"),
        (f"{SERVERS}", "expected either topics or topic_pattern"),
        (f"{SERVERS}, topics: [a], topic_pattern: a", "expected either topics or topic_pattern"),
        (f"{SERVERS}, topics: []", "topics: found an empty list, expected a list of at least 1 item; change it"),
        (f"{SERVERS}, topics: [a], take_over: ''", "found '', expected text of at least 1 character; change it"),
        (f"{SERVERS}, topics: [a], publish_group: ''", "found '', expected text of at least 1 character; change it"),
        (f"{SERVERS}, topics: [a], run_interval_secs: true", "run_interval_secs: found true, expected a number"),
        (f"{SERVERS}, topics: [a, a]", "twice"),
        (f"{SERVERS}, topics: [__consumer_offsets], publish_group: g", "it would never be done"),
        (f"{SERVERS}, topics: ['a b']", "expected the name of a topic"),
        (f"{SERVERS}, topic_pattern: '('", "no regular expression"),
        ("bootstrap_servers: b1, topics: [a]", "expected a host and its port"),
        ('bootstrap_servers: "http://b1:9092", topics: [a]', "expected a host and its port"),
        ('bootstrap_servers: "b1:9092,", topics: [a]', "found '', expected a host and its port"),
        ('bootstrap_servers: "b1:0", topics: [a]', "expected a host and its port"),
        ('bootstrap_servers: "b1:9092,b2:65536", topics: [a]', "found 'b2:65536', expected a host and its port"),
        (f"{SERVERS}, topics: [a], start: '2026-11-01 00:00:00'", "expected earliest, latest or a time"),
        (f"{SERVERS}, topics: [a], start: yesterday", "expected earliest, latest or a time"),
        (f"{SERVERS}, topics: [a], security: {{protocol: SASL_SSL}}", "mechanism is missing"),
        (f"{SERVERS}, topics: [a], security: {{protocol: SSL, username: u}}", "username has no effect"),
        (f"{SERVERS}, topics: [a], security: {{protocol: SSL, key_location: k}}", "go together"),
    ],
)
def test_a_block_that_is_wrong_is_reported_with_its_place(kafka: str, expected: str) -> None:
    found = problem(kafka)
    assert "pipelines.p.sources.s.kafka" in found
    assert expected in found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("uri: s3://landing/a", "uri: found a uri and the block `kafka`"),
        ("format: csv\n                schema: a STRING", "format: found csv; a message of a topic is one of"),
        ("format: envelope\n                schema: infer", "whose schema is always"),
        ("format: text\n                schema: infer", "whose schema is always"),
        ("format: ndjson", "schema: is missing"),
        ("format: envelope\n                schema: a STRING", "whose schema is always"),
        ("format: text\n                envelope: {payload: string}", "envelope: has no effect with `format: text`"),
        ("format: envelope\n                pattern: '*.gz'", "pattern: has no effect for topics"),
        ("format: envelope\n                compression: gzip", "compression: has no effect for topics"),
        ("format: envelope\n                sweep: {interval_secs: 5}", "sweep: has no effect for topics"),
        ("format: envelope\n                checkpoint: {interval_files: 5}", "interval_files: has no effect"),
        ("format: envelope\n                limits: {max_file_bytes: 5}", "max_file_bytes: has no effect for topics"),
        ("format: envelope\n                new_fields: rescue", "new_fields: is not possible"),
    ],
)
def test_options_of_files_are_refused_for_topics(more: str, expected: str) -> None:
    assert expected in problem(f"{SERVERS}, topics: [a]", more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("format: envelope", "format: envelope is for the messages of a topic"),
        ("format: text\n                envelope: {}", "envelope: has no effect"),
        (
            "format: text\n                checkpoint: {interval_records: 5}",
            "interval_records: has no effect for files",
        ),
    ],
)
def test_options_of_topics_are_refused_for_files(more: str, expected: str) -> None:
    document = text("", more).replace("kafka: {}", "uri: s3://landing/a")
    with pytest.raises(ConfigError) as refused:
        parse_config(document, {})
    assert expected in "\n".join(refused.value.problems)


@pytest.mark.parametrize(("payload", "expected"), [("", "BINARY"), ("envelope: {payload: string}", "STRING")])
def test_the_columns_of_an_envelope_are_fixed_but_for_the_payload(payload: str, expected: str) -> None:
    found = source(f"{SERVERS}, topics: [a]", f"format: envelope\n                {payload}")
    assert found.record_ddl.endswith(f"message_payload {expected}")


def test_commands_about_files_name_sources_of_topics() -> None:
    config = parse_config(text(f"{SERVERS}, topics: [a]"), {})
    assert [found.id for _, found in selected(config, None, None)] == ["p:s"]
    with pytest.raises(ConfigError, match="source p:s: it reads topics"):
        selected_of_files(config, None, None)


CERTIFICATES = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
RECORD = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}'


def avro(block: str) -> str:
    return f"""format: avro
                schema: a STRING
                avro: {{{block}}}"""


def test_a_registry_has_its_login_in_what_tasks_get_and_nowhere_else() -> None:
    login = f"username: u, password: secret-password, ca_pem: {json.dumps(CERTIFICATES)}"
    found = source(f"{SERVERS}, topics: [a]", avro(f"registry: {{url: 'https://r:8081/', {login}}}"))
    assert found.format_options == {
        "schema": None,
        "registry": {
            "url": "https://r:8081",
            "username": "u",
            "password": "secret-password",
            "ca_pem": CERTIFICATES,
        },
    }
    assert "secret-password" not in repr(found)
    assert "secret-password" not in found.model_dump_json()


def test_the_text_of_a_schema_file_is_part_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "clicks.avsc").write_text(RECORD)
    given = source(f"{SERVERS}, topics: [a]", avro(f"schema: '{RECORD}'"))
    assert given.format_options == {"schema": RECORD, "registry": None}
    for folder, path in ((str(tmp_path), "clicks.avsc"), (None, str(tmp_path / "clicks.avsc"))):
        document = text(f"{SERVERS}, topics: [a]", avro(f"schema_file: {path}"))
        ((_, found),) = parse_config(document, {}, folder=folder).sources()
        assert found == given
        assert found.avro_options is not None
        written = json.dumps(found.avro_options.model_dump(mode="json", by_alias=True))
        assert source(f"{SERVERS}, topics: [a]", avro(written[1:-1])) == given


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("", "avro: expected one of schema, schema_file and registry"),
        (
            f"schema: '{RECORD}', registry: {{url: 'http://r'}}",
            "avro: expected one of schema, schema_file and registry",
        ),
        (f"schema: '{RECORD}', schema_file: a.avsc", "avro: expected one of schema, schema_file and registry"),
        ("schema: '{'", "avro.schema: found '{', expected a schema of Avro as JSON"),
        ("schema: '\"string\"'", "avro.schema: found a schema of the type 'string'"),
        ("schema: '[]'", "avro.schema: found a schema of the type []"),
        (f"schema: {RECORD}", "avro.schema: found a mapping, expected text (put it in quotes)"),
        ("schema_file: a.avsc", "avro: schema_file: found the relative path 'a.avsc'"),
        ("schema_file: ~/a.avsc", "`~` is not expanded here"),
        ("schema_file: /nowhere/a.avsc", "'/nowhere/a.avsc' cannot be read: No such file or directory"),
        ("schema_file: /dev/zero", "'/dev/zero' has more than 1,048,576 bytes"),
        ("registry: {}", "avro.registry.url: is missing"),
        ("registry: {url: 'r:8081'}", "avro.registry.url: found 'r:8081'; expected the address"),
        ("registry: {url: 'ftp://r'}", "expected the address"),
        ("registry: {url: 'http://r:99999'}", "expected the address"),
        ("registry: {url: 'http://'}", "expected the address"),
        ("registry: {url: 'http://r/a b'}", "expected the address"),
        ("registry: {url: 'http://r/?a=b'}", "with `?` or `#`"),
        ("registry: {url: 'http://u:secret-password@r'}", "the login in username and password"),
        ("registry: {url: 'u:secret-password@r'}", "expected the address"),
        ("registry: {url: 'http://u:secret-password/x@r'}", "expected the address"),
        ("registry: {url: 'http://r', username: u}", "username and password go together"),
        ("registry: {url: 'http://r', password: secret-password}", "username and password go together"),
        (
            f"registry: {{url: 'http://r', ca_pem: {json.dumps(CERTIFICATES)}}}",
            "ca_location has no effect with http",
        ),
        ("registri: {url: 'http://r'}", "avro.registri: unknown key"),
    ],
)
def test_a_block_of_avro_that_is_wrong_is_reported_with_its_place(block: str, expected: str) -> None:
    found = problem(f"{SERVERS}, topics: [a]", avro(block))
    assert f"pipelines.p.sources.s.{expected}" in found or expected in found
    assert "secret-password" not in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (text(f"{SERVERS}, topics: [a]", "format: avro\n                schema: a STRING"), "avro: is missing; add"),
        (
            text(f"{SERVERS}, topics: [a]", f"format: avro\n                avro: {{schema: '{RECORD}'}}"),
            "schema: is missing",
        ),
        (
            text(f"{SERVERS}, topics: [a]", avro(f"schema: '{RECORD}'").replace("format: avro", "format: ndjson")),
            "only with avro",
        ),
        (
            text("", avro(f"schema: '{RECORD}'")).replace("kafka: {}", "uri: s3://landing/a"),
            "avro: has no effect for files",
        ),
        (
            text("", avro(f"schema: '{RECORD}'"))
            .replace("kafka: {}", "uri: s3://landing/a")
            .replace("format: avro", "format: orc"),
            "avro: has no effect with `format: orc`",
        ),
    ],
)
def test_the_block_of_avro_is_for_messages_of_avro(document: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(document, {})
    [found] = refused.value.problems
    assert expected in found


def test_certificates_of_authorities_are_read_with_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATES)
    for block in ("{protocol: SSL, ca_location: ca.pem}", f"{{protocol: SSL, ca_pem: {json.dumps(CERTIFICATES)}}}"):
        document = text(f"{SERVERS}, topics: [a], security: {block}")
        ((_, found),) = parse_config(document, {}, folder=str(tmp_path)).sources()
        assert found.kafka is not None
        settings = found.kafka.client_settings()
        assert (settings["ssl.ca.pem"], settings["security.protocol"]) == (CERTIFICATES, "SSL")
        assert "ca.pem" not in json.dumps(found.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("ca_location: none.pem", "none.pem' cannot be read: No such file or directory; expected a file with text"),
        ("ca_location: none, ca_pem: x", "ca_location and ca_pem say the same in two ways; remove one"),
        (
            "ca_pem: AA==",
            "ca_pem: found no certificate; expected certificates in PEM, each of which begins with -----BEGIN",
        ),
    ],
)
def test_what_has_no_certificates_is_refused(tmp_path: Path, block: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        parse_config(text(f"{SERVERS}, topics: [a], security: {{protocol: SSL, {block}}}"), {}, folder=str(tmp_path))


def test_a_start_before_1970_is_that_of_the_first_possible_message() -> None:
    """Kafka takes -1 and -2 milliseconds for the end and the beginning."""
    found = source(f"{SERVERS}, topics: [a], start: '1969-12-31T23:59:59.999Z'")
    assert found.kafka is not None
    assert found.kafka.start_ts == 0.0
