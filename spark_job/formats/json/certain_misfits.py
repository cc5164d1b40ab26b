"""Values that certainly do not fit a column of their own, although only Spark can judge the records around them."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from pyspark.sql.types import ByteType, DataType, DateType, DecimalType

from spark_job.formats.odd_data import NumberText

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WHOLE = re.compile(r"-?[0-9]{1,5}")
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")


def certainly_misfits(value: Any, data_type: DataType) -> bool:
    """`value`: of an `exact_record`. False if Spark may accept it."""
    check = _CHECKS.get(type(data_type))
    return check is not None and check(value, data_type)


def _tiny(value: Any, data_type: DataType) -> bool:
    return isinstance(value, NumberText) and _WHOLE.fullmatch(value) is not None and not -128 <= int(value) < 128


def _decimal(value: Any, data_type: DataType) -> bool:
    assert isinstance(data_type, DecimalType)
    if not isinstance(value, NumberText) or _PLAIN_NUMBER.fullmatch(value) is None:
        return False
    with localcontext() as context:
        context.prec = 100
        try:
            rounded = Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), ROUND_HALF_UP)
        except InvalidOperation:
            return False
    return abs(rounded) >= Decimal(10) ** (data_type.precision - data_type.scale)


def _day(value: Any, data_type: DataType) -> bool:
    if type(value) is not str or _DAY.fullmatch(value) is None:
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return True
    return False


_CHECKS: Mapping[type[DataType], Callable[[Any, DataType], bool]] = {
    ByteType: _tiny,
    DecimalType: _decimal,
    DateType: _day,
}
