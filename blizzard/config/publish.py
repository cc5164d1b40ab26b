"""The published form of a configuration: JSON with every variable resolved and every default filled in.

The job reads it with the usual loader, since JSON is YAML; the functions read it with `blizzard.config.published`.
"""

import json
import re
from typing import Any

from blizzard.config.load import parse_config
from blizzard.config.model import Config
from blizzard.errors import ConfigError

_REFUSAL = "this configuration cannot be published"
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def to_published(config: Config) -> str:
    """Deterministic. The text reads as the same configuration on any machine.

    Raises ConfigError when the configuration cannot be published: it is too large, or holds a local relative path.
    """
    value = _escaped(config.model_dump(mode="json", by_alias=True))
    text = _join_surrogates(json.dumps(value, indent=1)) + "\n"
    try:
        read = parse_config(text, {}, name="the published form")
    except ConfigError as error:
        raise ConfigError([f"{_REFUSAL}: {problem}" for problem in error.problems]) from error
    if read != config:
        expected = "expected its published form to read as the same configuration, found a difference"
        raise ConfigError([f"{_REFUSAL}: {expected}; this is a bug of Blizzard: report it with the configuration"])
    return text


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
