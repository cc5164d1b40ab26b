"""`schema: infer`: from what a sample of first records showed to the columns of a table that has none yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from blizzard.config import ddl
from blizzard.config.schema_rules import SchemaRules
from blizzard.errors import ConfigError
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.observed import Observed
from blizzard.infer.renamed import renamed
from blizzard.infer.storable import LeftOut, Storable, no_column, storable
from blizzard.log import Log
from blizzard.state.schema_origin import First

_SHOWN, _SHOWN_CHARS = 20, 300
"""Fields without a column that the log names; characters of the records' keys that an error shows."""


class Inferred(NamedTuple):
    """`schema`: of a record, in DDL."""

    schema: str
    first: First


@dataclass(frozen=True, slots=True)
class FirstRecords:
    """`partition_columns`: those from folders, which the records cannot have. `rules`: how records are read. `check`
    raises ConfigError if the configuration does not fit a schema."""

    source_id: str
    partition_columns: Mapping[str, str]
    rules: SchemaRules
    check: Callable[[str], None]
    log: Log

    def columns(self, observed: Observed) -> Storable:
        """Raises ConfigError if `fields` of the source name keys that the records do not have."""
        keys = observed.keys()
        found = renamed(keys, self.rules.fields, ignore_case=self.rules.ignores_case)
        if found.missing and keys.columns:
            raise ConfigError([self._nothing_to_read(found.missing, keys)])
        columns = storable(found.schema, is_typed=observed.is_typed)
        others = [LeftOut(name, f"column `{name}` is read from another key") for name in found.replaced]
        in_folders = {name.lower() for name in self.partition_columns}
        others += [
            LeftOut(
                column.name,
                f"column `{column.name}` is in `partition_columns`; the field of the records is not read",
            )
            for column in columns.schema.columns
            if column.name.lower() in in_folders
        ]
        own = [column for column in columns.schema.columns if column.name.lower() not in in_folders]
        return Storable(ddl.Struct(tuple(own)), (*columns.left_out, *others))

    def _nothing_to_read(self, missing: Sequence[str], keys: ddl.Struct) -> str:
        shown = ", ".join(f"{name}: {'.'.join(self.rules.fields[name])}" for name in missing)
        known = ", ".join(column.name for column in keys.columns)
        return (
            f"fields of source {self.source_id} has {shown}, which none of the records has that were looked at; "
            f"found {known:.{_SHOWN_CHARS}}; correct it, or write the `schema`"
        )

    def inferred(self, found: Storable, observed: Observed, first: str, **looked_at: int) -> Inferred:
        """The columns, which the log then has. `first`: file, or partition, that was looked at; `looked_at`: how many.
        Raises ConfigError if the configuration does not fit them."""
        schema = ddl_of(found.schema.columns, with_not_null=False)
        self.check(schema)
        self.log(
            "schema_inferred",
            source=self.source_id,
            schema=schema,
            **looked_at,
            records=observed.records,
            left_out=[one.why for one in found.left_out][:_SHOWN],
        )
        return Inferred(schema, First(observed.records, first))

    def failed(self, why: str) -> str:
        """The sentence of a source that fails. `why`: if there is no field without a column."""
        return f"no schema can be inferred for source {self.source_id}: {why}"

    def failed_without_columns(self, found: Storable) -> str:
        """As `failed`, if it has fields without a column and no other."""
        return self.failed(no_column([(one.path, one.why) for one in found.left_out]))
