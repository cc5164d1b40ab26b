"""JSON numbers to integers, floats and decimals, as Spark converts them."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType

from spark_job.formats.converted_column import ConvertedColumn, rows_outside, rows_where

# From here on, two numbers that read as the same double may round to two decimals.
_EXACT_DIGITS = 1 << 51


def integers(values: pa.Array, wanted: pa.DataType) -> ConvertedColumn:
    if wanted == pa.int64():
        return ConvertedColumn(values)
    half = 1 << (wanted.bit_width - 1)
    doubtful = rows_outside(values, pa.scalar(-half, pa.int64()), pa.scalar(half - 1, pa.int64()))
    return ConvertedColumn(values.cast(wanted, safe=not doubtful), doubtful)


def floats(values: pa.Array) -> ConvertedColumn:
    """Spark reads 1e400 as infinity and refuses Inf; it reads -0 as 0 and -0.0 as -0.0."""
    bits = values.view(pa.int64() if values.type == pa.float64() else pa.int32())
    negative_zero = pa.scalar(-(1 << (values.type.bit_width - 1)), bits.type)
    odd = pc.or_(pc.invert(pc.is_finite(values)), pc.equal(bits, negative_zero))
    return ConvertedColumn(values, rows_where(odd))


def decimals(values: pa.Array, data_type: DecimalType) -> ConvertedColumn:
    if pa.types.is_string(values.type):
        return _decimal_text(values, data_type)
    if pa.types.is_decimal(values.type):
        return _decimal_digits(values, data_type)
    # Let T be the number as it is written, x the double nearest to it, D the whole number nearest to x * 10^s, and let
    # D / 10^s give x again. Then T and D / 10^s lie within half an ulp of x, at most 2^-53 * |x|, so they are less than
    # half of 10^-s apart when |D| < 2^51, and T rounds to D / 10^s.
    scale = 10.0**data_type.scale
    digits = pc.round(pc.multiply(values, scale), round_mode="half_to_even")
    limit = float(min(_EXACT_DIGITS, 10**data_type.precision))
    sure = pc.and_(pc.equal(pc.divide(digits, scale), values), pc.less(pc.abs(digits), limit))
    doubtful = rows_where(pc.invert(sure))
    whole = pc.if_else(sure, digits, None).cast(pa.int64()) if doubtful else digits.cast(pa.int64())
    wide = whole.cast(pa.decimal128(38, 0))
    made = pa.Array.from_buffers(_decimal128(data_type), len(wide), wide.buffers(), wide.null_count)
    return ConvertedColumn(made, doubtful, rows_where(pc.equal(values, 0.0)))


def _decimal_digits(values: pa.Array, data_type: DecimalType) -> ConvertedColumn:
    """Arrow does not check a decimal's range again after it has rescaled it."""
    end = Decimal(10) ** (data_type.precision - data_type.scale)
    beyond = pc.or_(
        pc.less_equal(values, pa.scalar(-end, values.type)), pc.greater_equal(values, pa.scalar(end, values.type))
    )
    doubtful = rows_where(beyond)
    kept = pc.if_else(beyond, pa.scalar(None, values.type), values) if doubtful else values
    return ConvertedColumn(kept.cast(_decimal128(data_type)), doubtful)


def _decimal_text(values: pa.Array, data_type: DecimalType) -> ConvertedColumn:
    """Strings with a number, without exponent, plus sign or commas, and with no more digits than the type."""
    before, behind = data_type.precision - data_type.scale, data_type.scale
    point = rf"(\.[0-9]{{1,{behind}}})?" if behind else ""
    plain = pc.match_substring_regex(values, rf"\A-?[0-9]{{1,{max(before, 1)}}}{point}\z")
    doubtful = rows_where(pc.invert(plain))
    made = pc.if_else(plain, values, None) if doubtful else values
    if not before:
        return ConvertedColumn(pa.nulls(len(values), _decimal128(data_type)), rows_where(values.is_valid()))
    return ConvertedColumn(made.cast(_decimal128(data_type)), doubtful)


def _decimal128(data_type: DecimalType) -> pa.DataType:
    return pa.decimal128(data_type.precision, data_type.scale)
