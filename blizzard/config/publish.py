"""A configuration as it is published: JSON with every variable resolved and every default filled in.

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
    """The same configuration gives the same text, which reads as that configuration wherever it is read.

    Raises ConfigError for one that cannot be published: it is too large, or holds a relative path of this machine.
    """
    value = _escaped(config.model_dump(mode="json", by_alias=True))
    text = _yaml_too(json.dumps(value, indent=1)) + "\n"
    try:
        read = parse_config(text, {}, name="the published form")
    except ConfigError as error:
        raise ConfigError([f"{_REFUSAL}: {problem}" for problem in error.problems]) from error
    if read != config:
        raise ConfigError([f"{_REFUSAL}: it reads differently from its published form"])
    return text


def _escaped(value: Any) -> Any:
    """`${` is a plain text by now; read again, it would be taken for a variable."""
    match value:
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
        case list():
            return [_escaped(item) for item in value]
        case str():
            return value.replace("${", "$${")
    return value


def _yaml_too(text: str) -> str:
    """JSON spells a character beyond U+FFFF as two halves, which YAML takes for two characters."""

    def whole(match: re.Match[str]) -> str:
        high, low = int(match[2], 16), int(match[3], 16)
        return match[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))

    return _SURROGATES.sub(whole, text)
