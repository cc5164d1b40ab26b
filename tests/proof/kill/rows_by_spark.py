"""The rows of a table that only Spark reads, by Spark's own reader."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.proof.kill.fork_server import ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.places import Place


class NotRead(Exception):
    """With what Spark said."""


def rows_by_spark(fork_server: ForkServer, jvm: Jvm, place: Place, file: Path) -> Sequence[Mapping[str, Any]]:
    """Of the newest version, without nulls. `file`: for the rows. Raises NotRead."""
    process = fork_server.start(
        "tests.proof.kill.job:write_rows",
        environment={**place.environment, **jvm.environment},
        uri=place.table_uri,
        file=str(file),
    )
    if process.wait() != 0:
        raise NotRead(process.log.read_text()[-2500:])
    return [json.loads(line) for line in file.read_text().split("\n") if line]
