"""A reader of ORC that knows what its process was asked."""

from typing import Any

from spark_job.formats.orc.reader import OrcReader


class Asked(OrcReader):
    """`asked`: the kinds of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def _ask(self, process: Any, request: dict[str, object], body: bytes = b"") -> tuple[int, bytearray]:
        self.asked.append(request["do"])
        return super()._ask(process, request, body)
