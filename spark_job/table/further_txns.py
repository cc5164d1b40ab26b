"""Txns that a commit has beside the source's own, such as one for each partition of a topic."""

from blizzard.errors import LostRace
from spark_job.ports.table import Txns
from spark_job.table.engine import Transaction


def add_further_txns(transaction: Transaction, txns: Txns) -> None:
    """Raises LostRace if the table has one of these Txns already, in this version or a later one. From here on a
    concurrent commit of one of them is a conflict."""
    for app_id, version in txns.items():
        committed = transaction.txn_version(app_id)
        if committed is not None and committed >= version:
            raise LostRace(
                f"the table has version {committed} of Txn {app_id!r}; expected one below {version}, as this commit "
                "has it"
            )
    transaction.add_txns(txns)
