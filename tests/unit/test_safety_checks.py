"""A table that forgets Txns is refused."""

import pytest

from blizzard.errors import PermanentError
from spark_job.table.safety_checks import check_txns_are_kept


@pytest.mark.parametrize("name", ["delta.setTransactionRetentionDuration", "DELTA.settransactionretentionduration"])
def test_a_table_that_forgets_txns_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(PermanentError) as raised:
        check_txns_are_kept({name: "interval 1 day"}, "s3://lake/orders")
    said = str(raised.value)
    assert "rows would be doubled" in said
    assert f"ALTER TABLE delta.`s3://lake/orders` UNSET TBLPROPERTIES ('{name}')" in said


def test_other_properties_are_accepted() -> None:
    check_txns_are_kept(
        {"delta.logRetentionDuration": "interval 30 days", "delta.appendOnly": "true"}, "s3://lake/orders"
    )
