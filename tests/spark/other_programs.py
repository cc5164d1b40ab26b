"""Programs other than Blizzard that read a table and change it: Spark, and deltalake, which needs no Java."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession


class OtherProgram(Protocol):
    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        """All rows, in the order of the first of these columns."""
        ...

    def optimize(self) -> None: ...

    def delete(self, where: str | None = None) -> None:
        """None: all rows."""
        ...

    def insert(self, name: str) -> None:
        """A row with this `id` and the `n` 1."""
        ...

    def set_property(self, name: str, value: str) -> None: ...

    def forget(self) -> None:
        """What it has kept in memory of the table's log."""
        ...


@dataclass(frozen=True, slots=True)
class BySpark:
    spark: Callable[[], SparkSession]
    table: Path

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        rows = self._sql(f"SELECT {', '.join(columns)} FROM {{t}} ORDER BY {columns[0]}")
        return [tuple(row) for row in rows]

    def optimize(self) -> None:
        self._sql("OPTIMIZE {t}")

    def delete(self, where: str | None = None) -> None:
        self._sql("DELETE FROM {t}" + (f" WHERE {where}" if where else ""))

    def insert(self, name: str) -> None:
        self._sql(f"INSERT INTO {{t}} (id, n) VALUES ('{name}', 1)")

    def set_property(self, name: str, value: str) -> None:
        self._sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")

    def forget(self) -> None:
        self.spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def _sql(self, text: str) -> list[Any]:
        return self.spark().sql(text.replace("{t}", f"delta.`{self.table}`")).collect()


@dataclass(frozen=True, slots=True)
class ByDeltalake:
    table: Path

    def read(self, *columns: str) -> list[tuple[Any, ...]]:
        rows = DeltaTable(str(self.table)).to_pyarrow_table(columns=[*columns]).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=lambda row: row[0])

    def optimize(self) -> None:
        DeltaTable(str(self.table)).optimize.compact()

    def delete(self, where: str | None = None) -> None:
        DeltaTable(str(self.table)).delete(where)

    def insert(self, name: str) -> None:
        schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
        row = pa.table({"id": [name], "n": [1]}, schema)
        write_deltalake(str(self.table), row, mode="append", schema_mode="merge")

    def set_property(self, name: str, value: str) -> None:
        DeltaTable(str(self.table)).alter.set_table_properties({name: value})

    def forget(self) -> None:
        """Each call opens the table."""
