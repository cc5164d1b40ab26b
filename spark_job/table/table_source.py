"""Which source writes to which table: what the modules of `table` need to know of both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from blizzard.config import ddl
from blizzard.config.schema_rules import RESCUED
from blizzard.state.schema_origin import First, Origin
from spark_job.table.effective_schema import FIXED, EvolutionRules

TARGET_FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class TableSource:
    """One source, and the table that it writes to."""

    table_uri: str
    source_id: str
    """`pipeline:source`, as in `_source.source`."""
    app_id: str
    """The app id of the source's Txns."""
    schema: str
    """DDL of the records' columns."""
    partition_columns: Mapping[str, str]
    """Columns that come from folder names, with their SQL types."""
    partition_by: tuple[str, ...]
    derive: Mapping[str, str] = field(default_factory=dict)
    """Expressions of derived columns, by name."""
    constraints: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the table's CHECK constraints, by name."""
    cluster_by: tuple[str, ...] = ()
    """Columns by which the table is clustered when it is made."""
    table_properties: Mapping[str, str] = field(default_factory=dict)
    """Further properties of the table when it is made."""
    other_columns: frozenset[str] = frozenset()
    """Names of the columns of the pipeline's other sources, in lower case."""
    target_file_bytes: int = TARGET_FILE_BYTES
    """Size at which a new data file is started in a partition of the table."""
    evolution: EvolutionRules = FIXED
    creates_table: bool = False
    """Whether `schema` is only right for a table that the source's next commit creates."""
    only_states: bool = False
    """Whether nothing but checkpoints is committed: the table's columns then stay as they are."""
    first: First | None = None
    """By which records `schema` was inferred; None: the configuration, or the table, has it."""

    def origin_of(self, added: Iterable[str]) -> Origin:
        """Of columns with these names that the source adds to the table."""
        if self.first is None:
            return Origin(self.source_id)
        known = {column.name for column in ddl.parse(self.schema).columns} - {RESCUED}
        return Origin(self.source_id, self.first, [name for name in added if name in known])
