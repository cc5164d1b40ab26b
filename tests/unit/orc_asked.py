"""A reader of ORC that knows what its process was asked."""

from collections.abc import Iterator
from typing import Any

import pytest

from spark_job.formats.orc import format as orc_format
from spark_job.formats.orc.reader import OrcReader


class Asked(OrcReader):
    """`asked`: the kinds of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def _ask(self, process: Any, request: dict[str, object], body: bytes = b"") -> tuple[int, bytearray]:
        self.asked.append(request["do"])
        return super()._ask(process, request, body)


def asked_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A fixture: the reader that the format uses."""
    found = Asked()
    monkeypatch.setattr(orc_format, "READER", found)
    yield found
    found.close()
