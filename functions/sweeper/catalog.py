"""Registers tables in the Glue data catalog, where Athena and Spark look for them.

Nothing of ingestion depends on it: whatever goes wrong is logged and counted, and tried again later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.log import first_line
from blizzard.table.glue_table import is_same_location, registered_location, table_name
from functions.runtime import FunctionLog

RETRY_SECS = 900.0
"""Between attempts to register a table that could not be. Each one is logged."""
TAKEN = "AlreadyExistsException"


class TableNotRegistered(Exception):
    """The text says why, and what to do."""


class GlueClient(Protocol):
    """The calls of botocore's client."""

    def get_table(self, **parameters: Any) -> dict[str, Any]: ...

    def create_table(self, **parameters: Any) -> dict[str, Any]: ...


@dataclass(slots=True)
class TableCatalog:
    """The tables of pipelines in one Glue database. `make_client` is called when the first table is registered."""

    database: str
    make_client: Callable[[], GlueClient]
    log: FunctionLog
    clock: Callable[[], float]
    _registered: dict[str, str] = field(default_factory=dict)
    """By pipeline, the location."""
    _retry_ts: dict[str, float] = field(default_factory=dict)
    _client: GlueClient | None = None

    def register(self, tables: Mapping[str, str]) -> int:
        """`tables`: by pipeline, the URI of its table, which has a first commit. Returns how many could not be
        registered."""
        due = {
            pipeline: uri.rstrip("/")
            for pipeline, uri in tables.items()
            if self._registered.get(pipeline) != uri.rstrip("/") and self.clock() >= self._retry_ts.get(pipeline, 0.0)
        }
        return sum(not self._try(pipeline, location) for pipeline, location in due.items())

    def _try(self, pipeline: str, location: str) -> bool:
        name = table_name(pipeline)
        try:
            self._register(name, location)
        except (BotoCoreError, ClientError, TableNotRegistered) as error:
            self._retry_ts[pipeline] = self.clock() + RETRY_SECS
            self._failed(name, location, error)
            return False
        self._registered[pipeline] = location
        return True

    def _failed(self, name: str, location: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {first_line(str(error))}"
        self.log.error("table_not_registered", database=self.database, table=name, location=location, error=reason)

    def _register(self, name: str, location: str) -> None:
        """Leaves a table of this name as it is, whoever registered it. Raises TableNotRegistered if it is another
        one."""
        if self._client is None:
            self._client = self.make_client()
        found = registered_location(self._client, self.database, name)
        if found is None and self._create(self._client, name, location):
            return
        found = found or registered_location(self._client, self.database, name)
        if found is None or not is_same_location(found, location):
            raise TableNotRegistered(
                f"the table {name} of the Glue database {self.database}: expected the location {location}, found "
                f"{found or 'none'}; rename the pipeline, or delete that table from the catalog if nobody needs it"
            )

    def _create(self, client: GlueClient, name: str, location: str) -> bool:
        """False: somebody else was faster."""
        try:
            client.create_table(DatabaseName=self.database, TableInput=table_input(name, location))
        except ClientError as error:
            if error.response["Error"]["Code"] == TAKEN:
                return False
            raise
        self.log.info("table_registered", database=self.database, table=name, location=location)
        return True


def table_input(name: str, location: str) -> dict[str, Any]:
    """As Spark registers a Delta table: columns and partitions are only in the table's log, where Athena and Spark read
    them, so that a schema that changes needs no change here."""
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "delta"},
        "StorageDescriptor": {
            "Location": location,
            "Columns": [{"Name": "col", "Type": "array<string>", "Comment": "the columns are in the table's log"}],
            "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
            "SerdeInfo": {
                "SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                "Parameters": {"path": location, "serialization.format": "1"},
            },
        },
    }
