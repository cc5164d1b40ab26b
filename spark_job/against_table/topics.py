"""What a run makes of the topics of which the table may have messages already."""

from blizzard.config.kafka_options import NOTHING, KafkaOptions
from blizzard.errors import BlizzardError, RecoveryError
from blizzard.kafka.brokers import Cluster
from blizzard.kafka.former_sources import check_not_renamed, former_topics
from blizzard.kafka.takeover import taken_over
from spark_job.against_table.comparison import Comparison
from spark_job.against_table.files import BEGINS, WITHOUT_TXN, cannot_be_told
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.wiring import TableParts


def begin_topics(
    found: Comparison, parts: TableParts, options: KafkaOptions, table: DeltaSourceTable, cluster: Cluster | None
) -> None:
    """Of a source of which the table has no Txn: what its first run would ask. `cluster` None: the brokers do not
    answer."""
    try:
        if table.holds_rows():
            found.notes.append(WITHOUT_TXN)
            return
        txns = table.txns()
        taken_over(parts.state, txns, options, parts.source.id)
        if options.take_over != NOTHING and cluster is not None:
            rows = [(one.source, one.path, one.etag) for one in table.files_of_others()]
            former = former_topics(parts.state, txns, rows, parts.pipeline.source_ids)
            check_not_renamed(former, cluster, parts.source.id)
    except RecoveryError as error:
        found.refused.append(str(error))
    except BlizzardError as error:
        found.notes.append(cannot_be_told("whether the source was renamed, so that the run is refused,", error))
    else:
        found.notes.append(BEGINS)
