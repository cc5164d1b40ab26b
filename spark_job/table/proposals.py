"""What the rows of a batch ask of the schema of their table, compared with the table as it is now."""

from collections.abc import Sequence

from blizzard.errors import RetryableError
from blizzard.state.unknown_fields import UnknownFields
from spark_job.ports.table import FieldWish, SchemaProposal
from spark_job.table.dependents import dependents_of
from spark_job.table.engine import TableEngine
from spark_job.table.evolution import propose
from spark_job.table.file_layout import TableDescription
from spark_job.table.preparation import TablePreparation
from spark_job.table.table_source import TableSource
from spark_job.table.written_files import WrittenFiles

NOTHING = SchemaProposal()


class Proposals:
    """Of one source."""

    def __init__(self, engine: TableEngine, source: TableSource, preparation: TablePreparation) -> None:
        self._engine = engine
        self._source = source
        self._rules = source.evolution
        self._preparation = preparation

    def of(self, rows: WrittenFiles) -> SchemaProposal:
        """Raises RetryableError if the columns of records have changed since the rows were read."""
        unknown = _wishes(rows.unknown_fields) if self._rules.add else ()
        misfits = _wishes(rows.misfits) if self._rules.widen else ()
        if not (unknown or misfits):
            return NOTHING
        with self._engine.translating(f"planning a change of table {self._source.table_uri}"):
            reason = self._engine.why_no_transactions()
            if reason is not None:
                return SchemaProposal(None, {wish.path: reason for wish in (*unknown, *misfits)})
            table = self._preparation.start_transaction().description()
            self._check_columns(table, rows)
            return self._propose(table, unknown, misfits)

    def _check_columns(self, table: TableDescription, rows: WrittenFiles) -> None:
        columns = self._preparation.record_columns(table.schema)
        if [(one.name, one.dataType) for one in columns] != [(one.name, one.dataType) for one in rows.record_type]:
            raise RetryableError(
                f"the columns of table {self._source.table_uri} have changed since the batch was read: another job or "
                "somebody else has changed the table. Nothing was committed; the batch is planned again."
            )

    def _propose(
        self, table: TableDescription, unknown: Sequence[FieldWish], misfits: Sequence[FieldWish]
    ) -> SchemaProposal:
        def proposed(misfits: Sequence[FieldWish]) -> SchemaProposal:
            return propose(
                table.schema,
                self._rules,
                partition_by=table.partition_by,
                unknown=unknown,
                misfits=misfits,
                dependents=[*dependents_of(table)],
            )

        proposal = proposed(misfits)
        widened = [one.path for one in proposal.change.widened] if proposal.change is not None else []
        reason = self._engine.why_no_widening() if widened else None
        if reason is None:
            return proposal
        without = proposed([wish for wish in misfits if wish.path not in widened])
        return SchemaProposal(without.change, {**without.refused, **dict.fromkeys(widened, reason)})


def _wishes(fields: UnknownFields) -> Sequence[FieldWish]:
    return [FieldWish(one.name, one.kind, one.records, one.file, one.record) for one in fields.fields]
