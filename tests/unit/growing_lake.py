"""A lake whose tables get columns from their files, by the local engine."""

from collections.abc import Mapping
from typing import Any, NoReturn

ADD: Mapping[str, Any] = {"schema": "id STRING, address STRUCT<city: STRING>", "new_fields": "add"}


class Killed(BaseException):
    """The process dies here."""


def die() -> NoReturn:
    raise Killed
