"""The published form of a configuration: JSON with every variable resolved and every default filled in.

The job reads it with the usual loader, since JSON is YAML; the functions read it with `blizzard.config.published`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from blizzard.config.kafka_options import MSK_IAM
from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.config.published import PublishedConfig, read_published
from blizzard.errors import ConfigError

_REFUSAL = "this configuration cannot be published"
_NO_PASSWORDS = (
    "found a password, which all who read the published configuration would see. Expected none: name a `secret` of AWS "
    f"Secrets Manager with username and password instead, or, for brokers of Amazon MSK, `mechanism: {MSK_IAM}`"
)
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def to_published(config: Config) -> str:
    """Deterministic. The text reads as the same configuration on any machine.

    Raises ConfigError when the configuration cannot be published: it is too large, has a password, or holds a local
    relative path.
    """
    if found := [*_passwords(config)]:
        raise ConfigError([f"{_REFUSAL}: {place}: {_NO_PASSWORDS}" for place in found])
    text = text_of(document_of(config))
    try:
        read = parse_config(text, {}, name="the published form")
    except ConfigError as error:
        raise ConfigError([f"{_REFUSAL}: {problem}" for problem in error.problems]) from error
    if read != config:
        expected = "expected its published form to read as the same configuration, found a difference"
        raise ConfigError([f"{_REFUSAL}: {expected}; this is a bug of Blizzard: report it with the configuration"])
    return text


def as_functions_read(config: Config) -> PublishedConfig:
    """What functions would read of it, also of a configuration that is not published, as one with passwords."""
    return read_published(text_of(document_of(config)), "the configuration")


def document_of(config: Config) -> dict[str, Any]:
    """Its values as JSON has them, for `text_of`. Instead of passwords it has asterisks."""
    return dict(config.model_dump(mode="json", by_alias=True))


def text_of(document: Mapping[str, Any]) -> str:
    return _join_surrogates(json.dumps(_escaped(document), indent=1)) + "\n"


def _passwords(config: Config) -> Iterator[str]:
    """Their places in the configuration."""
    for pipeline, source in config.sources():
        place = f"pipelines.{pipeline.name}.sources.{source.name}"
        for name in ("password", "key_password"):
            if source.kafka is not None and getattr(source.kafka.security, name) is not None:
                yield f"{place}.kafka.security.{name}"
        registry = None if source.avro_options is None else source.avro_options.registry
        if registry is not None and registry.password is not None:
            yield f"{place}.avro.registry.password"


def _escaped(value: Any) -> Any:
    """At this point `${` is plain text, but the next reader would take it for a variable."""
    match value:
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
        case list():
            return [_escaped(item) for item in value]
        case str():
            return value.replace("${", "$${")
    return value


def _join_surrogates(text: str) -> str:
    """JSON escapes a character above U+FFFF as two surrogates, which YAML reads as two characters."""

    def character(match: re.Match[str]) -> str:
        high, low = int(match[2], 16), int(match[3], 16)
        return match[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))

    return _SURROGATES.sub(character, text)
