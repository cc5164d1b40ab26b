"""Which types Delta widens to which others, and how its log says so."""

from collections.abc import Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
)

WIDENING_PROPERTY = "delta.enableTypeWidening"
TYPE_CHANGES = "delta.typeChanges"
"""The key of a column's metadata under which Delta notes how its type has changed."""
_WHOLE: Sequence[type[DataType]] = (ByteType, ShortType, IntegerType, LongType)
_WHOLE_DIGITS: Mapping[type[DataType], int] = {ByteType: 10, ShortType: 10, IntegerType: 10, LongType: 20}
"""How many digits before the point Delta asks of a decimal that a column of whole numbers is widened to."""


MAX_DIGITS = 38
"""Of a decimal."""


def widens(narrow: DataType, wide: DataType) -> bool:
    """Whether Delta widens a column of the one type to the other. Not to itself; types with parts, part by part."""
    if type(narrow) in _WHOLE:
        if type(wide) in _WHOLE:
            return _WHOLE.index(type(narrow)) < _WHOLE.index(type(wide))
        if isinstance(wide, DecimalType):
            return wide.precision - wide.scale >= _WHOLE_DIGITS[type(narrow)]
        return isinstance(wide, DoubleType) and not isinstance(narrow, LongType)
    match narrow, wide:
        case FloatType(), DoubleType():
            return True
        case DateType(), TimestampNTZType():
            return True
        case DecimalType(), DecimalType():
            more_scale = wide.scale - narrow.scale
            more_digits = wide.precision - wide.scale - (narrow.precision - narrow.scale)
            return more_scale >= 0 and more_digits >= 0 and (more_scale > 0 or more_digits > 0)
    return False


def widened(found: DataType, needed: DataType) -> DataType | None:
    """The narrowest type to which Delta widens the one and that holds the values of the other, too; None if there is
    none. Elements of arrays and values of maps are told by the type of the whole."""
    match found, needed:
        case ArrayType(), ArrayType():
            element = widened(found.elementType, needed.elementType)
            return None if element is None else ArrayType(element, found.containsNull)
        case MapType(), MapType():
            value = widened(found.valueType, needed.valueType)
            return None if value is None else MapType(found.keyType, value, found.valueContainsNull)
    if widens(found, needed):
        return needed
    digits = [_digits(found), _digits(needed)]
    if None in digits or (not isinstance(found, DecimalType) and not isinstance(needed, DecimalType)):
        return None
    whole, scale = (max(of) for of in zip(*filter(None, digits), strict=True))
    wide = DecimalType(whole + scale, scale) if whole + scale <= MAX_DIGITS else None
    return wide if wide is not None and widens(found, wide) else None


def _digits(data_type: DataType) -> tuple[int, int] | None:
    """Before and after the point; None if it has no exact number of them."""
    if isinstance(data_type, DecimalType):
        return data_type.precision - data_type.scale, data_type.scale
    return (_WHOLE_DIGITS[type(data_type)], 0) if type(data_type) in _WHOLE_DIGITS else None


def with_type_changes(before: StructType, after: StructType) -> StructType:
    """`after`, with what Delta's log has to say of each type that differs from `before`. Fields go by their names."""
    known = {field.name: field for field in before.fields}
    return StructType([_noted(known.get(field.name), field) for field in after.fields])


def _noted(before: StructField | None, after: StructField) -> StructField:
    if before is None:
        return after
    data_type, changes = _compared(before.dataType, after.dataType, "")
    metadata = dict(after.metadata or {})
    if changes:
        metadata[TYPE_CHANGES] = [*metadata.get(TYPE_CHANGES, ()), *changes]
    return StructField(after.name, data_type, after.nullable, metadata)


def _compared(before: DataType, after: DataType, path: str) -> tuple[DataType, list[dict[str, str]]]:
    """The type with the notes of its structs' fields, and the notes of the elements, keys and values of this one, which
    have no metadata of their own. `path`: where they are in the column."""
    if isinstance(before, StructType) and isinstance(after, StructType):
        return with_type_changes(before, after), []
    if isinstance(before, ArrayType) and isinstance(after, ArrayType):
        element, changes = _compared(before.elementType, after.elementType, _below(path, "element"))
        return ArrayType(element, after.containsNull), changes
    if isinstance(before, MapType) and isinstance(after, MapType):
        key, of_keys = _compared(before.keyType, after.keyType, _below(path, "key"))
        value, of_values = _compared(before.valueType, after.valueType, _below(path, "value"))
        return MapType(key, value, after.valueContainsNull), [*of_keys, *of_values]
    if before == after:
        return after, []
    change = {"fromType": str(before.jsonValue()), "toType": str(after.jsonValue())}
    return after, [change | ({"fieldPath": path} if path else {})]


def _below(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
