"""Points in time that people write."""

import re
from datetime import UTC, datetime

from blizzard.errors import ConfigError

_AGE = re.compile(r"(\d{1,9})\s*([smhd])")
_SECS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def point_in_time(text: str, option: str, now_ts: float) -> float:
    """Unix seconds of a date or time (ISO 8601, in UTC unless it says otherwise), or of an age such as `12h`. Raises
    ConfigError."""
    expected = "expected a date or time such as 2026-11-21 or 2026-11-21T09:30, or an age such as 12h"
    if not text.strip():
        raise ConfigError([f"{option}: {expected}, found nothing. Is a variable of the shell not set?"])
    if age := _AGE.fullmatch(text.strip()):
        return now_ts - int(age[1]) * _SECS[age[2]]
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError([f"{option} {text}: {expected}"]) from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def optional_point_in_time(text: str | None, option: str, now_ts: float) -> float | None:
    """As `point_in_time`; None: the option was not given."""
    return None if text is None else point_in_time(text, option, now_ts)


def shown(ts: float | None) -> str:
    """For people, to the second, in UTC."""
    return "-" if ts is None else datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M:%S")
