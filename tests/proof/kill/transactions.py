"""What commits in the product."""

from collections.abc import Sequence
from typing import Any

from spark_job.engines.local.transaction import AppendTransaction, FirstCommit
from spark_job.engines.spark.transaction import Transaction

TRANSACTIONS: Sequence[Any] = (Transaction, AppendTransaction, FirstCommit)
"""Of each engine."""
