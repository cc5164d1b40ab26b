"""Single values of a JSON text, as bytes of UTF-8."""

import json
from typing import NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault


def value_of(token: bytes) -> object:
    """Raises ValueError. Of bytes `json.loads` would guess the encoding, and pass over a byte order mark."""
    return json.loads(token.decode())


def is_scalar(token: bytes) -> bool:
    try:
        return not isinstance(value_of(token), dict | list)
    except ValueError:
        return False


def refuse(why: str) -> NoReturn:
    raise FileFault(Stage.PARSE, f"not JSON: {why}")
